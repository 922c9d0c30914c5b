"""The whole installation in figures."""

from __future__ import annotations

from typing import Any

from gateway.api.call import Call
from gateway.api.installation import render_lanes
from gateway.api.reply import Reply, json_reply
from gateway.store import Inspection
from gateway.store.targets import inspect_targets


async def show(call: Call) -> Reply:
    """What waits, runs and is kept now, and what happened since the data began, by event and by target."""
    store, names = call.gateway.store, sorted(call.gateway.registry.targets)
    inspection = await call.in_time(store.inspect)
    states = await call.in_time(lambda: inspect_targets(store, names))
    events, by_target = _counts(inspection)
    for name in names:
        state = states[name]
        about = by_target.setdefault(name, {"target": name, "events": {}})
        about |= {"pending": sum(state.pending.values()), "paused": state.paused}
        if state.blocked:
            about["blocked"] = state.blocked
    return json_reply(
        {
            "lanes": render_lanes(inspection),
            "due": inspection.due,
            "running": inspection.running,
            "dead": inspection.dead,
            "finished": inspection.finished,
            "dispatchers": inspection.dispatchers,
            "late_seconds": inspection.late_ms / 1000,
            "events": events,
            "targets": [by_target[name] for name in sorted(by_target)],
        }
    )


def _counts(inspection: Inspection) -> tuple[dict[str, int], dict[str, dict[str, Any]]]:
    """The counters `<event>:<lane>:<target>` summed by event, and by target."""
    events: dict[str, int] = {}
    by_target: dict[str, dict[str, Any]] = {}
    for counter, value in sorted(inspection.counters.items()):
        parts = counter.split(":")
        if len(parts) == 3:
            event, _, target = parts
            events[event] = events.get(event, 0) + value
            own = by_target.setdefault(target, {"target": target, "events": {}, "pending": 0, "paused": False})[
                "events"
            ]
            own[event] = own.get(event, 0) + value
    return events, by_target

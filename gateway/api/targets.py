"""Targets: what they are, what waits for them and why, pausing them."""

from __future__ import annotations

from typing import Any

from gateway.api.call import Call
from gateway.api.reply import Reply, json_reply
from gateway.limits import KeyLimits, Limits
from gateway.registry.targets import Target
from gateway.store.targets import TargetState, inspect_targets, pause_target


async def list_all(call: Call) -> Reply:
    """Every target, by name; no executor's configuration, since secrets may be in it."""
    targets = dict(sorted(call.gateway.registry.targets.items()))
    states = await call.in_time(lambda: inspect_targets(call.gateway.store, list(targets)))
    return json_reply({"targets": [_render(target, states[name]) for name, target in targets.items()]})


async def show(call: Call) -> Reply:
    """One target; NotFound if there is none of that name."""
    return await _shown(call, call.gateway.registry.submittable(call.path_value("target")))


async def pause(call: Call) -> Reply:
    """The target, of which no job starts until `resume`."""
    return await _paused(call, paused=True)


async def resume(call: Call) -> Reply:
    """The target, whose jobs go on."""
    return await _paused(call, paused=False)


async def _paused(call: Call, *, paused: bool) -> Reply:
    target = call.gateway.registry.submittable(call.path_value("target"))
    await call.in_time(lambda: pause_target(call.gateway.store, target.name, paused=paused))
    return await _shown(call, target)


async def _shown(call: Call, target: Target) -> Reply:
    states = await call.in_time(lambda: inspect_targets(call.gateway.store, [target.name]))
    return json_reply(_render(target, states[target.name]))


def _render(target: Target, state: TargetState) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": target.name,
        "executor": target.executor.name,
        "paused": state.paused,
        "pending": state.pending,
    }
    if state.running is not None:
        out["running"] = state.running
    if state.blocked:
        out["blocked"] = state.blocked
    if target.lane is not None:
        out["lane"] = target.lane
    if target.limit is not None:
        out["limits"] = _limits(target.limit)
    if target.ordered:
        out["ordered"] = True
    return out


def _limits(limits: KeyLimits) -> dict[str, Any]:
    out = {
        name: str(value) if isinstance(value, str) else value
        for name in ("rate", "burst", "quota", "concurrency")
        if (value := getattr(limits, name)) is not None
    }
    if isinstance(limits, Limits) and limits.per_key is not None:
        out["per_key"] = _limits(limits.per_key)
    return out

"""Schedules over the API: define, look at, pause, resume, run now, delete."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.api.call import Call
from gateway.api.json_bodies import json_text
from gateway.api.query import Query
from gateway.api.reply import DONE, Reply, json_reply
from gateway.errors import Fault, InvalidRequest, WrongState
from gateway.events import JobEvent
from gateway.keys import NAME
from gateway.store.schedules import (
    Standing,
    find_schedule,
    list_schedules,
    pause_schedule,
    put_schedule,
    remove_schedule,
    resume_schedule,
)
from gateway.store.slots import run_schedule
from gateway.submission import job_facts, parse_schedule
from gateway.timestamps import timestamp


async def list_all(call: Call) -> Reply:
    """A page of schedules by name, without their payloads; the cursor is a name."""
    query = Query(call.scope["query_string"], ("limit", "cursor"))
    limit, after = query.limit(), query.text("cursor") or ""
    query.done()
    if after and NAME.match(after) is None:
        raise InvalidRequest("the query has faults", faults=[Fault("cursor", "not a cursor that this API gave out")])
    store = call.gateway.store
    page = await call.in_time(lambda: list_schedules(store, after=after, limit=limit))
    last = page[-1].schedule.name if len(page) == limit else None
    return json_reply({"schedules": [render_summary(each) for each in page], "next_cursor": last})


async def show(call: Call) -> Reply:
    """The schedule with its payload."""
    store, name = call.gateway.store, call.path_value("name")
    return json_reply(render_schedule(await call.in_time(lambda: find_schedule(store, name))))


async def put(call: Call) -> Reply:
    """201 for a new schedule, 200 for one that this replaces; WrongState for a name that the file defines."""
    text = await json_text(call)
    gateway, name = call.gateway, call.path_value("name")
    catalog, store = gateway.catalog, gateway.store
    schedule = parse_schedule(text, name, targets=catalog.targets, lanes=catalog.lanes)
    _refuse_files_own(call, name)
    verdict = await call.in_time(lambda: put_schedule(store, schedule))
    standing = await call.in_time(lambda: find_schedule(store, name))
    return json_reply(render_schedule(standing), 201 if verdict == "created" else 200)


async def delete(call: Call) -> Reply:
    """204; the jobs that it made stay. WrongState for a name that the file defines."""
    store, name = call.gateway.store, call.path_value("name")
    _refuse_files_own(call, name)
    await call.in_time(lambda: remove_schedule(store, name))
    return DONE


async def pause(call: Call) -> Reply:
    """The schedule, paused; the same again if it was."""
    store, name = call.gateway.store, call.path_value("name")
    return json_reply(render_schedule(await call.in_time(lambda: pause_schedule(store, name))))


async def resume(call: Call) -> Reply:
    """The schedule with its next slot from now; unchanged if it was not paused."""
    store, name = call.gateway.store, call.path_value("name")
    return json_reply(render_schedule(await call.in_time(lambda: resume_schedule(store, name))))


async def run(call: Call) -> Reply:
    """202 with a job made now; WrongState if the one before stands in its way (`overlap`: `forbid`)."""
    gateway, name = call.gateway, call.path_value("name")
    targets, default_lane = gateway.registry.targets, gateway.settings.lanes.default
    job_id, schedule = await call.in_time(
        lambda: run_schedule(gateway.store, name, lambda found: job_facts(found, targets, default_lane))
    )
    if gateway.registry.listeners.listening:
        lane = job_facts(schedule, targets, default_lane).lane
        at_ms = int(gateway.clock() * 1000)
        gateway.registry.listeners.emit(JobEvent("accepted", job_id, schedule.target, lane, at_ms))
    return json_reply({"job_id": job_id, "status": "pending"}, 202)


def _refuse_files_own(call: Call, name: str) -> None:
    if name in call.gateway.registry.schedules:
        raise WrongState(f"schedule {name} is defined in {call.gateway.settings.source}: change it there")


def render_schedule(standing: Standing) -> dict[str, Any]:
    """All that is known of a schedule; the payload as the bytes that were sent."""
    return render_summary(standing) | {"payload": orjson.Fragment(bytes(standing.schedule.payload))}


def render_summary(standing: Standing) -> dict[str, Any]:
    """The same without the payload."""
    schedule = standing.schedule
    out: dict[str, Any] = {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "target": schedule.target,
        "lane": schedule.lane,
        "priority": schedule.priority,
        "key": schedule.key or None,
        "jitter": schedule.jitter_ms / 1000 or None,
        "catch_up": schedule.catch_up,
        "overlap": schedule.overlap,
        "max_attempts": schedule.max_attempts,
        "timeout": schedule.timeout,
        "tags": schedule.tags or None,
        "source": schedule.source,
        "paused": standing.paused,
        "next_run_at": _time(standing.fires_ms),
        "last": _last(standing),
        "fired": standing.fired,
        "missed": standing.missed,
        "overlapped": standing.overlapped,
        "created_at": timestamp(standing.created_ms),
        "updated_at": timestamp(standing.updated_ms),
    }
    return {name: value for name, value in out.items() if value is not None}


def _last(standing: Standing) -> dict[str, Any] | None:
    if not standing.job_id:
        return None
    status = standing.job_status or "gone"
    return {"job_id": standing.job_id, "status": status, "run_at": _time(standing.last_slot_ms)}


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else timestamp(at_ms)

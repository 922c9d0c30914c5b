"""Purging dead jobs, one by id or many by filter."""

from __future__ import annotations

import msgspec

from gateway.api.call import Call
from gateway.api.json_bodies import whole_body
from gateway.api.query import NO_CURSOR, is_cursor
from gateway.api.replays import ReplayFilter, read_filter
from gateway.api.reply import DONE, Reply, json_reply
from gateway.store.purge import DeadFilter, purge, purge_some


class PurgeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs are to go: all of them where the filter, which must be there, is empty; `cursor` goes on."""

    filter: ReplayFilter | None = None
    cursor: str | None = None


async def purge_one(call: Call) -> Reply:
    """204; WrongState if the job is not dead."""
    job_id = call.path_value("job_id")
    await call.in_time(lambda: purge(call.gateway.store, job_id))
    return DONE


async def purge_many(call: Call) -> Reply:
    """How many of the next 500 dead jobs went, and the cursor of those after them."""
    body, faults = await whole_body(call, PurgeBody)
    wanted, after_ms, before_ms = read_filter(body.filter, faults)
    if not is_cursor(body.cursor):
        faults.add("/cursor", NO_CURSOR)
    faults.raise_any()
    chosen = DeadFilter(
        target=wanted.target or "",
        reason=wanted.reason.value if wanted.reason else "",
        dead_after_ms=after_ms,
        dead_before_ms=before_ms,
    )
    purged, cursor = await call.in_time(lambda: purge_some(call.gateway.store, chosen, cursor=body.cursor))
    return json_reply({"purged": purged, "next_cursor": cursor})

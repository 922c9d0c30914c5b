"""The dead-letter queue: look through it, and send jobs back to their lanes."""

from __future__ import annotations

from gateway.api.call import Call
from gateway.api.json_bodies import optional_body
from gateway.api.query import Query
from gateway.api.records import render_page, render_record, render_summary
from gateway.api.replays import ReplayOverrides, RetryBody
from gateway.api.reply import Reply, json_reply
from gateway.errors import NotFound
from gateway.jobs import Reason, Record, Status
from gateway.store.listing import list_jobs


async def list_dead(call: Call) -> Reply:
    """A page of dead jobs, the latest first."""
    query = Query(call.scope["query_string"], ("target", "reason", "limit", "cursor"))
    limit = query.limit()
    reason = query.one_of("reason", [reason.value for reason in Reason])
    target, cursor = query.text("target"), query.cursor()
    query.done()

    def keep(record: Record) -> bool:
        return reason is None or record.reason == reason

    store = call.gateway.store
    page = await call.in_time(
        lambda: list_jobs(store, Status.DEAD, limit=limit, cursor=cursor, target=target, keep=keep)
    )
    return json_reply(render_page(page))


async def show_dead(call: Call) -> Reply:
    """The record of a dead job; NotFound if it is not dead."""
    job_id = call.path_value("job_id")
    found = await call.in_time(lambda: call.gateway.store.find(job_id))
    if found.record.status != Status.DEAD:
        raise NotFound(f"job {job_id} is not in the dead-letter queue: it is {found.record.status}")
    return json_reply(render_record(found.record))


async def retry(call: Call) -> Reply:
    """The record of the job, which is pending again, with its payload for keys that may read it; WrongState if it was
    not dead. The body may be left out."""
    store, job_id = call.gateway.store, call.path_value("job_id")
    overrides = (await optional_body(call, RetryBody)).overrides or ReplayOverrides()
    await call.in_time(lambda: store.replay(job_id, max_attempts=overrides.max_attempts or 0))
    found = await call.in_time(lambda: store.find(job_id))
    call.gateway.transitions.one("job replayed", job_id=job_id, target=found.record.target, lane=found.record.lane)
    if call.trace is not None:
        call.trace.replayed(job_id, found.record.target, found.record.options)
    return json_reply((render_record if call.client.may_read else render_summary)(found.record))

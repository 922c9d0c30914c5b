"""Jobs: submit one or many, look at them, cancel."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.api.begun import Asked, Begun, carry_on
from gateway.api.bodies import NDJSON_TYPES, check_body, check_json, media_type
from gateway.api.call import Call
from gateway.api.prefer import preferred_durability, preferred_wait
from gateway.api.problems import Refused, describe
from gateway.api.query import Query
from gateway.api.records import render_page, render_record, render_status, render_timeline
from gateway.api.reply import Reply, json_reply
from gateway.api.waiting import await_record
from gateway.errors import InvalidRequest, RequestError, StoreFull
from gateway.events import JobEvent
from gateway.jobs import Record, Submission, Submitted
from gateway.store.durability import Durability
from gateway.store.listing import list_jobs
from gateway.submission import Caller, check_text, parse_submission, split_array, split_lines


async def submit(call: Call) -> Reply:
    """202 for a job taken in, 200 for one that was there already; 200 and the record for one that was waited for."""
    check_json(call.headers)
    durability, wait_s = _preferred(call)
    asked = _one(call, await call.body(), durability)
    if not wait_s:
        return await carry_on(call, asked)
    submitted = (await call.gateway.store.submit(asked.jobs, durability, until_s=call.until_s))[0]
    answer = asked.finish([submitted])
    return answer if submitted.status == "gone" else _applied(await _held(call, submitted, wait_s), durability)


def begin(call: Call, body: bytes) -> Begun | None:
    """As `submit`; None where the job is waited for."""
    check_json(call.headers)
    durability, wait_s = _preferred(call)
    if wait_s:
        return None
    check_body(call.headers, call.limits, len(body))
    return _one(call, body, durability)


def _preferred(call: Call) -> tuple[Durability | None, int]:
    """What the client prefers: a durability, if any, and for how many seconds it waits for the job."""
    if b"prefer" not in call.headers:
        return None, 0
    most_s = int(call.gateway.settings.gateway.hold)
    return preferred_durability(call.headers), preferred_wait(call.headers, most_s)


def _one(call: Call, text: bytes, durability: Durability | None) -> Asked:
    check_text(text)
    gateway = call.gateway
    now_s = gateway.clock()
    jobs = [parse_submission(text, gateway.catalog, caller=_caller(call, with_key=True), now_s=now_s)]
    if call.trace is not None:
        jobs = call.trace.stamp(jobs)

    def finish(submitted: list[Submitted]) -> Reply:
        _raise_refused(submitted[0])
        announce(call, jobs, submitted, now_s=now_s)
        return _applied(_answer(submitted[0]), durability)

    return Asked(jobs, finish, durability)


def _applied(reply: Reply, durability: Durability | None) -> Reply:
    """With what was heeded of the client's preferences (RFC 7240, 3)."""
    if durability is None:
        return reply
    headers = (*reply.headers, (b"preference-applied", b"durability=" + durability.encode()))
    return Reply(reply.status, reply.body, reply.content_type, headers)


async def _held(call: Call, submitted: Submitted, wait_s: int) -> Reply:
    """200 and the record if the job is over in time, else as without waiting."""
    record = await await_record(call, submitted.job_id, wait_s)
    if record is None:
        return _answer(submitted)
    if not record.status.finished:
        return _answer(Submitted(submitted.verdict, submitted.job_id, record.status.value))
    return _waited(record, wait_s)


def _waited(record: Record, wait_s: int) -> Reply:
    applied = (b"preference-applied", b"wait=%d" % wait_s)
    return Reply(200, orjson.dumps(render_record(record)), headers=(applied,))


async def submit_batch(call: Call) -> Reply:
    """Each item's own answer, in order; only what concerns the whole batch fails it whole."""
    durability = _check_batch(call)
    return await carry_on(call, _many(call, await call.body(), durability))


def begin_batch(call: Call, body: bytes) -> Begun:
    """As `submit_batch`."""
    durability = _check_batch(call)
    check_body(call.headers, call.limits, len(body))
    return _many(call, body, durability)


def _check_batch(call: Call) -> Durability | None:
    """Raises Refused for a head that no batch has: the durability that the client prefers, if any."""
    check_json(call.headers, also=NDJSON_TYPES)
    durability = preferred_durability(call.headers)
    if call.headers.one(b"idempotency-key") is not None:
        raise Refused(400, "a batch has an idempotency_key in each of its jobs, not one in a header", close=True)
    return durability


def _many(call: Call, text: bytes, durability: Durability | None) -> Begun:
    check_text(text)
    lines = media_type(call.headers) in NDJSON_TYPES or text.lstrip()[:1] == b"{"
    items = split_lines(text) if lines else split_array(text)
    gateway, now_s, caller = call.gateway, call.gateway.clock(), _caller(call)
    results: list[dict[str, Any]] = [{} for _ in items]
    jobs: dict[int, Submission] = {}
    for at, item in enumerate(items):
        try:
            jobs[at] = parse_submission(item, gateway.catalog, caller=caller, now_s=now_s)
        except RequestError as error:
            results[at] = {"error": describe(error)}
    if call.trace is not None:
        jobs = dict(zip(jobs, call.trace.stamp(list(jobs.values())), strict=True))
    taken = list(jobs.values())

    def finish(submitted: list[Submitted]) -> Reply:
        announce(call, taken, submitted, now_s=now_s)
        for at, each in zip(jobs, submitted, strict=True):
            results[at] = _result(each)
        return _applied(json_reply({"results": results}), durability)

    return Asked(taken, finish, durability) if taken else finish([])


async def show(call: Call) -> Reply:
    """The record; with `Prefer: wait=N` once the job is over, or after N seconds as it is then."""
    job_id = call.path_value("job_id")
    found = await call.in_time(lambda: call.gateway.store.find(job_id))
    wait_s = preferred_wait(call.headers, int(call.gateway.settings.gateway.hold))
    if not wait_s or found.record.status.finished:
        return json_reply(render_record(found.record))
    record = await await_record(call, job_id, wait_s)
    return _waited(record or found.record, wait_s)


async def show_status(call: Call) -> Reply:
    """The short form of the record."""
    found = await call.in_time(lambda: call.gateway.store.find(call.path_value("job_id")))
    return json_reply(render_status(found.record))


async def show_events(call: Call) -> Reply:
    """The timeline."""
    found = await call.in_time(lambda: call.gateway.store.find(call.path_value("job_id")))
    return json_reply(render_timeline(found))


async def list_all(call: Call) -> Reply:
    """A page of jobs: the running ones first, then those that wait in the order in which they run, then the rest."""
    query = Query(call.scope["query_string"], ("status", "target", "lane", "tag", "limit", "cursor"))
    status, limit = query.status(), query.limit()
    lane = query.one_of("lane", call.gateway.store.lanes)
    target, tag, cursor = query.text("target"), query.text("tag"), query.cursor()
    query.done()

    def keep(record: Record) -> bool:
        return tag is None or tag in record.options.tags

    store = call.gateway.store
    page = await call.in_time(
        lambda: list_jobs(store, status, limit=limit, cursor=cursor, lane=lane, target=target, keep=keep)
    )
    return json_reply(render_page(page))


async def cancel(call: Call) -> Reply:
    """200 for a job that waited, 202 for one that runs and was asked to stop; WrongState if it is over."""
    store, job_id = call.gateway.store, call.path_value("job_id")
    verdict = await call.in_time(lambda: store.cancel(job_id))
    call.gateway.transitions.one(f"job cancel{'led' if verdict == 'cancelled' else ' asked for'}", job_id=job_id)
    if verdict == "asked":
        return json_reply({"job_id": job_id, "status": "running"}, 202)
    if call.gateway.registry.listeners.listening:
        record = (await call.in_time(lambda: store.find(job_id))).record
        at_ms = int(call.gateway.clock() * 1000)
        event = JobEvent("cancelled", job_id, record.target, record.lane, at_ms, record.attempts)
        call.gateway.registry.listeners.emit(event)
    return json_reply({"job_id": job_id, "status": "cancelled"})


def announce(call: Call, jobs: list[Submission], submitted: list[Submitted], *, now_s: float) -> None:
    """Tells the log, and the plugins, of the jobs that were taken in."""
    if call.gateway.transitions.wanted:
        _log_accepted(call, jobs, submitted)
    listeners = call.gateway.registry.listeners
    if listeners.listening:
        for job, each in zip(jobs, submitted, strict=True):
            if each.verdict == "accepted":
                listeners.emit(JobEvent("accepted", each.job_id, job.target, job.lane, int(now_s * 1000)))


def _log_accepted(call: Call, jobs: list[Submission], submitted: list[Submitted]) -> None:
    transitions = call.gateway.transitions
    count = 0
    for each in submitted:
        count += each.verdict == "accepted"
    room = transitions.room("job accepted", count)
    if not room:
        return
    accepted = [at for at, each in enumerate(submitted) if each.verdict == "accepted"]
    trace = call.trace.own.trace if call.trace is not None and call.trace.own.sampled else ""
    more: dict[str, Any] = {"trace_id": trace} if trace else {}
    for at in accepted[:room]:
        job, each = jobs[at], submitted[at]
        transitions.write(
            "job accepted", job_id=each.job_id, target=job.target, lane=job.lane, client=call.client.name, **more
        )


def _caller(call: Call, *, with_key: bool = False) -> Caller:
    traceparents = call.headers.all(b"traceparent")
    key = call.headers.one(b"idempotency-key") if with_key else None
    client = call.client
    return Caller(
        client.name,
        None if key is None else key.decode("latin-1"),
        traceparents[-1].decode("latin-1") if traceparents else "",
        client.may_url,
        client.callback,
    )


def _answer(submitted: Submitted) -> Reply:
    return Reply(200 if submitted.verdict == "duplicate" else 202, orjson.dumps(_accepted(submitted)))


def _accepted(submitted: Submitted) -> dict[str, Any]:
    answer: dict[str, Any] = {"job_id": submitted.job_id, "status": submitted.status}
    if submitted.verdict == "duplicate":
        answer["duplicate"] = True
    return answer


def _result(submitted: Submitted) -> dict[str, Any]:
    if submitted.verdict == "accepted":
        return _accepted(submitted)
    try:
        _raise_refused(submitted)
    except (InvalidRequest, StoreFull) as error:
        return {"error": describe(error)}
    return _accepted(submitted)


def _raise_refused(submitted: Submitted) -> None:
    if submitted.verdict == "full":
        raise StoreFull("the lane is full; nothing was queued")
    if submitted.verdict == "conflict":
        raise InvalidRequest("the idempotency key was used with another body; use a new key for a new job")

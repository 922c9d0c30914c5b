"""Deliveries: let in, verified by their signature, matched to targets, queued in one atomic submit, answered."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import orjson
import structlog

from gateway.api.begun import Asked, Begun, carry_on
from gateway.api.bodies import BodyLimits, check_body
from gateway.api.call import Call
from gateway.api.jobs import announce
from gateway.api.problems import Refused
from gateway.api.reply import Reply, json_reply
from gateway.api.senders import is_within, sender_of
from gateway.api.sources import over_limit
from gateway.api.waiting import await_record
from gateway.deliveries import Noted, Verdict
from gateway.errors import InvalidRequest, Rejected, StoreFull
from gateway.jobs import Record, Status, Submission, Submitted
from gateway.submission import delivery_submissions
from gateway.triggers import Match, Trigger
from gateway.verifier import Delivery, HandshakeResponse, WebhookRequest

log = structlog.get_logger(__name__)

LOCAL_URL = "http://localhost"


class Arrival(msgspec.Struct, frozen=True):
    """A request to a trigger, and where it came from."""

    trigger: Trigger
    request: WebhookRequest
    sender: str


async def receive(call: Call) -> Reply:
    """202 with the delivery's jobs, or a provider's handshake answered; one and the same 401 whatever is wrong."""
    name = call.path_value("trigger")
    trigger = call.gateway.registry.triggers.get(name)
    if trigger is None:
        trigger = await call.in_time(lambda: call.gateway.triggers.find(name))
    sender = _let_in(call, trigger)
    body = await call.body(_limits(call, trigger))
    begun = _begin(call, Arrival(trigger, _request(call, body), sender))
    return await carry_on(call, begun)


def begin(call: Call, body: bytes) -> Begun | None:
    """As `receive`; None where only Redis knows the trigger, or the answer waits for a job's end."""
    trigger = call.gateway.triggers.known(call.path_value("trigger"))
    if trigger is None or trigger.reception.sync:
        return None
    sender = _let_in(call, trigger)
    check_body(call.headers, _limits(call, trigger), len(body))
    return _begin(call, Arrival(trigger, _request(call, body), sender))


def _let_in(call: Call, trigger: Trigger) -> str:
    """The sender's address; raises Refused (401) where the trigger does not take anything from there."""
    sender = sender_of(call.scope, call.gateway.settings.gateway.trusted_proxies)
    if trigger.reception.allow_from and not is_within(sender, trigger.reception.allow_from):
        raise _rejected(call, Arrival(trigger, _request(call, b""), sender), "address")
    return sender


def _limits(call: Call, trigger: Trigger) -> BodyLimits:
    own = call.gateway.settings.gateway
    timeout_s = float(own.body_timeout)
    if most := trigger.reception.body_limit:
        return BodyLimits(most, timeout_s, "body_limit of the trigger")
    if most := trigger.verifier.body_limit:
        return BodyLimits(most, timeout_s, "which its provider never exceeds; body_limit of the trigger can be more")
    return BodyLimits(own.max_body, timeout_s)


def _begin(call: Call, arrival: Arrival) -> Begun:
    gateway, trigger, request = call.gateway, arrival.trigger, arrival.request
    now_s = gateway.clock()
    try:
        answer = trigger.verifier.handshake(request)
        delivery = None if answer is not None else trigger.verifier.verify(request, now_s)
    except Rejected as error:
        raise _rejected(call, arrival, error.reason) from error
    answer = delivery.answer if delivery is not None else answer
    if answer is not None or delivery is None:
        gateway.metrics.count_delivery(trigger.name, "handshake")
        return _handshake(answer or HandshakeResponse())
    _admit(call, trigger, now_s=now_s)
    try:
        matches = trigger.match(request, delivery)
        jobs = delivery_jobs(call, trigger, matches, now_s=now_s)
    except InvalidRequest as error:
        _note(call, arrival, delivery, "failed", reason=error.detail)
        raise
    if not jobs:
        return _unrouted(call, arrival, delivery)
    if trigger.reception.sync:
        return _synchronous(call, arrival, delivery, jobs, now_s=now_s)
    return Asked(jobs, partial(_accept, call, arrival, delivery, jobs, now_s), together=True)


def _accept(
    call: Call, arrival: Arrival, delivery: Delivery, jobs: list[Submission], now_s: float, submitted: list[Submitted]
) -> Reply:
    verdict, answer = _accepted(call, arrival, delivery, jobs, submitted, now_s=now_s)
    call.gateway.metrics.count_delivery(arrival.trigger.name, verdict)
    return _taken(arrival.trigger, answer)


async def _synchronous(
    call: Call, arrival: Arrival, delivery: Delivery, jobs: list[Submission], *, now_s: float
) -> Reply:
    submitted = await call.gateway.store.submit_together(jobs, until_s=call.until_s)
    verdict, answer = _accepted(call, arrival, delivery, jobs, submitted, now_s=now_s)
    call.gateway.metrics.count_delivery(arrival.trigger.name, verdict)
    if submitted[0].status == "gone":
        return _taken(arrival.trigger, answer)
    return await _result(call, arrival.trigger, submitted[0].job_id, answer)


def _accepted(
    call: Call,
    arrival: Arrival,
    delivery: Delivery,
    jobs: list[Submission],
    submitted: list[Submitted],
    *,
    now_s: float,
) -> tuple[Verdict, dict[str, Any]]:
    """What the delivery is noted and answered as; raises StoreFull."""
    check_taken(call, jobs, submitted, now_s=now_s)
    answer = render_jobs(jobs, submitted)
    verdict: Verdict = "duplicate" if answer["duplicate"] else "accepted"
    noted = tuple((each.job_id, job.target) for job, each in zip(jobs, submitted, strict=True))
    _note(call, arrival, delivery, verdict, jobs=noted)
    return verdict, answer


def delivery_jobs(call: Call, trigger: Trigger, matches: list[Match], *, now_s: float) -> list[Submission]:
    """The jobs of a delivery; raises InvalidRequest."""
    jobs = delivery_submissions(trigger.name, matches, call.gateway.catalog, now_s=now_s)
    return jobs if call.trace is None else call.trace.stamp(jobs)


def check_taken(call: Call, jobs: list[Submission], submitted: list[Submitted], *, now_s: float) -> None:
    """Tells of a delivery's jobs that were taken in; raises StoreFull if they were not."""
    for each in submitted:
        if each.verdict == "full":
            raise StoreFull("a lane is full; send the delivery again")
    announce(call, jobs, submitted, now_s=now_s)


async def submit_matches(
    call: Call, trigger: Trigger, matches: list[Match], *, now_s: float
) -> tuple[list[Submission], list[Submitted]]:
    """The jobs of a delivery, all of them or none; raises StoreError."""
    jobs = delivery_jobs(call, trigger, matches, now_s=now_s)
    submitted = await call.gateway.store.submit_together(jobs, until_s=call.until_s)
    check_taken(call, jobs, submitted, now_s=now_s)
    return jobs, submitted


def render_jobs(jobs: list[Submission], submitted: list[Submitted]) -> dict[str, Any]:
    """What a delivery is answered with."""
    return {
        "jobs": [{"job_id": each.job_id, "target": job.target} for job, each in zip(jobs, submitted, strict=True)],
        "duplicate": bool(submitted) and all(each.verdict == "duplicate" for each in submitted),
    }


async def _unrouted(call: Call, arrival: Arrival, delivery: Delivery) -> Reply:
    """Kept before it is acknowledged: a route that is added later can have it replayed."""
    noted = _noted(call, arrival, delivery, "unrouted")
    await call.in_time(lambda: call.gateway.journal.write(arrival.trigger, noted))
    call.gateway.metrics.count_delivery(arrival.trigger.name, "unrouted")
    log.info("delivery unrouted", trigger=arrival.trigger.name, kind=(delivery.event or "")[:64])
    return _taken(arrival.trigger, {"jobs": [], "duplicate": False})


async def _result(call: Call, trigger: Trigger, job_id: str, answer: dict[str, Any]) -> Reply:
    """The first job's result, if it comes in time; 502 if the job is dead, so that the provider sends again."""
    record = await await_record(call, job_id, float(trigger.reception.sync_timeout))
    if record is None or not record.status.finished:
        return _taken(trigger, answer)
    if record.status is not Status.SUCCEEDED:
        raise Refused(502, f"job {job_id} did not succeed: {record.reason or record.status.value}")
    return _result_reply(trigger, record)


def _result_reply(trigger: Trigger, record: Record) -> Reply:
    """The result as JSON, or, where the trigger says another content type and it is a text, as that text."""
    custom = trigger.reception.response
    body = record.result or b"null"
    if custom is None:
        return Reply(200, body)
    if "json" not in custom.content_type and isinstance(text := orjson.loads(body), str):
        body = text.encode()
    return Reply(custom.status, body, custom.content_type.encode())


def _taken(trigger: Trigger, answer: dict[str, Any]) -> Reply:
    custom = trigger.reception.response
    if custom is None:
        return json_reply(answer, 202)
    return Reply(custom.status, custom.body.encode(), custom.content_type.encode())


def _admit(call: Call, trigger: Trigger, *, now_s: float) -> None:
    """Raises Refused (503) over the trigger's limit; only what verifies counts, so nobody else can use it up."""
    limit = trigger.reception.limit
    if limit is None:
        return
    wait_s = call.gateway.meters.wait_s(trigger.name, limit.rate, limit.burst, now_s=now_s)
    if wait_s > 0:
        call.gateway.metrics.count_delivery(trigger.name, "limited")
        raise over_limit(wait_s)


def _rejected(call: Call, arrival: Arrival, reason: str) -> Refused:
    gateway, name = call.gateway, arrival.trigger.name
    gateway.metrics.count_delivery(name, "rejected")
    gateway.metrics.count_rejected_delivery(name, reason)
    gateway.rejections.tell(name, reason, now_s=gateway.clock())
    _note(call, arrival, None, "rejected", reason=reason)
    return Refused(401, "the delivery does not verify")


def _note(
    call: Call,
    arrival: Arrival,
    delivery: Delivery | None,
    verdict: Verdict,
    *,
    jobs: tuple[tuple[str, str], ...] = (),
    reason: str = "",
) -> None:
    noted = _noted(call, arrival, delivery, verdict, jobs=jobs, reason=reason)
    call.gateway.journal.note(arrival.trigger, noted)


def _noted(
    call: Call,
    arrival: Arrival,
    delivery: Delivery | None,
    verdict: Verdict,
    *,
    jobs: tuple[tuple[str, str], ...] = (),
    reason: str = "",
) -> Noted:
    at_ms = int(call.gateway.clock() * 1000)
    return Noted(arrival.request, at_ms, verdict, delivery, jobs, reason, arrival.sender)


def _request(call: Call, body: bytes) -> WebhookRequest:
    path = call.scope.get("raw_path") or call.scope["path"].encode()
    query = call.scope["query_string"]
    target = (path + b"?" + query if query else path).decode("latin-1")
    return WebhookRequest(
        method=call.scope["method"],
        url=(call.gateway.settings.gateway.public_url or LOCAL_URL).rstrip("/") + target,
        headers=tuple([(key.decode("latin-1"), value.decode("latin-1")) for key, value in call.headers]),
        body=body,
    )


def _handshake(answer: HandshakeResponse) -> Reply:
    headers = tuple((key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in answer.headers)
    return Reply(answer.status, answer.body, b"", headers)

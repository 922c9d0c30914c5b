"""Deliveries: let in, verified by their signature, matched to targets, queued in one atomic submit, answered."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import orjson
import structlog

from gateway.api.begun import Asked, Begun, carry_on
from gateway.api.bodies import BodyLimits, check_body
from gateway.api.call import Call
from gateway.api.jobs import announce
from gateway.api.meters import over_limit
from gateway.api.problems import UNEXPECTED, Refused
from gateway.api.reply import Reply, json_reply
from gateway.api.senders import is_within, sender_of
from gateway.api.waiting import await_record
from gateway.deliveries import Noted, Verdict
from gateway.errors import InvalidRequest, Rejected, RequestError, StoreFull
from gateway.jobs import Record, Status, Submission, Submitted
from gateway.reception import DeliveryLimit
from gateway.redaction import hide_text, secrets_of, secrets_sent
from gateway.routes import Match
from gateway.submission import delivery_submissions
from gateway.triggers import Trigger
from gateway.verifier import Delivery, HandshakeResponse, WebhookRequest

log = structlog.get_logger(__name__)


class Arrival(msgspec.Struct, frozen=True):
    """A request to a trigger, and when (Unix seconds) it came."""

    call: Call
    trigger: Trigger
    request: WebhookRequest
    at_s: float


async def receive(call: Call) -> Reply:
    """202 with the delivery's jobs, or a provider's handshake answered; one and the same 401 whatever is wrong."""
    name = call.path_value("trigger")
    trigger = call.gateway.registry.triggers.get(name)
    if trigger is None:
        trigger = await call.in_time(lambda: call.gateway.triggers.find(name))
    _let_in(call, trigger)
    body = await call.body(_limits(call, trigger))
    return await carry_on(call, _begin(_arrival(call, trigger, body)))


def begin(call: Call, body: bytes) -> Begun | None:
    """As `receive`; None where only Redis knows the trigger, or the answer waits for a job's end."""
    trigger = call.gateway.triggers.known(call.scope["path_params"]["trigger"])
    if trigger is None or trigger.reception.sync:
        return None
    _let_in(call, trigger)
    if len(body) > _most_bytes(call, trigger) or b"content-encoding" in call.headers.named:
        check_body(call.headers, _limits(call, trigger), len(body))
    return _begin(_arrival(call, trigger, body))


def _arrival(call: Call, trigger: Trigger, body: bytes) -> Arrival:
    scope, headers = call.scope, call.headers
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    url = call.gateway.base_url + (path + b"?" + query if query else path).decode("latin-1")
    request = WebhookRequest.arrived(scope["method"], url, body, headers.pairs, headers.named)
    return Arrival(call, trigger, request, call.gateway.clock())


def _most_bytes(call: Call, trigger: Trigger) -> int:
    """Of a body; `_limits` says besides whose limit it is."""
    return trigger.reception.body_limit or trigger.verifier.body_limit or call.gateway.settings.gateway.max_body


def _let_in(call: Call, trigger: Trigger) -> None:
    """Raises Refused (401) where the trigger does not take anything from the sender's address."""
    allowed = trigger.reception.allow_from
    if allowed and not is_within(_sender(call), allowed):
        raise _rejected(_arrival(call, trigger, b""), "address")


def _sender(call: Call) -> str:
    return sender_of(call.scope, call.gateway.settings.gateway.trusted_proxies)


def _limits(call: Call, trigger: Trigger) -> BodyLimits:
    timeout_s, most = float(call.gateway.settings.gateway.body_timeout), _most_bytes(call, trigger)
    if trigger.reception.body_limit:
        return BodyLimits(most, timeout_s, "body_limit of the trigger")
    if trigger.verifier.body_limit:
        return BodyLimits(most, timeout_s, "which its provider never exceeds; body_limit of the trigger can be more")
    return BodyLimits(most, timeout_s)


def _begin(arrival: Arrival) -> Begun:
    call, trigger, request = arrival.call, arrival.trigger, arrival.request
    try:
        answer = trigger.verifier.handshake(request)
        if answer is not None:
            return _handshake(arrival, answer)
        delivery = trigger.verifier.verify(request, arrival.at_s)
    except Rejected as error:
        raise _rejected(arrival, error.reason) from error
    except (RequestError, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # what ends a process must not do so from within a delivery
        raise _failed(arrival, error) from None
    if not isinstance(delivery, Delivery):  # acknowledged, it would be lost
        raise TypeError(f"verifier {trigger.verifier.name!r} returned {type(delivery).__name__}, not a Delivery")
    if delivery.answer is not None:
        return _handshake(arrival, delivery.answer, delivery)
    if trigger.reception.limit is not None:
        _admit(arrival, delivery, trigger.reception.limit)
    try:
        matches = trigger.match(request, delivery)
        jobs = _jobs_of(call, trigger, matches, now_s=arrival.at_s)
    except InvalidRequest as error:
        call.gateway.metrics.count_delivery(trigger.name, "failed")
        _note(arrival, delivery, "failed", reason=error.detail)
        raise
    if not jobs:
        return _unrouted(arrival, delivery)
    if trigger.reception.sync:
        return _synchronous(arrival, delivery, jobs)
    return Asked(jobs, partial(_accept, arrival, delivery, jobs), together=True)


async def _synchronous(arrival: Arrival, delivery: Delivery, jobs: list[Submission]) -> Reply:
    call = arrival.call
    submitted = await call.gateway.store.submit_together(jobs, until_s=call.until_s)
    reply = _accept(arrival, delivery, jobs, submitted)
    if submitted[0].status == "gone":
        return reply
    return await _result(call, arrival.trigger, submitted[0].job_id, reply)


def _accept(arrival: Arrival, delivery: Delivery, jobs: list[Submission], submitted: list[Submitted]) -> Reply:
    """The answer to the delivery, which is counted and noted; raises StoreFull."""
    gateway, trigger = arrival.call.gateway, arrival.trigger
    answer = _take_in(arrival.call, jobs, submitted, now_s=arrival.at_s)
    verdict: Verdict = "duplicate" if answer["duplicate"] else "accepted"
    if gateway.journal.wants(trigger):
        _note(arrival, delivery, verdict, jobs=[(each["job_id"], each["target"]) for each in answer["jobs"]])
    gateway.metrics.count_delivery(trigger.name, verdict)
    return _taken(trigger, answer)


def _jobs_of(call: Call, trigger: Trigger, matches: list[Match], *, now_s: float) -> list[Submission]:
    """The jobs of a delivery; raises InvalidRequest."""
    jobs = delivery_submissions(trigger.name, matches, call.gateway.catalog, now_s=now_s)
    return jobs if call.trace is None else call.trace.stamp(jobs)


def _take_in(call: Call, jobs: list[Submission], submitted: list[Submitted], *, now_s: float) -> dict[str, Any]:
    """What a delivery is answered with whose jobs were taken in, which the log and the plugins are told of; raises
    StoreFull if they were not."""
    duplicate = True
    taken = []
    for job, each in zip(jobs, submitted, strict=True):
        if each.verdict == "full":
            raise StoreFull("a lane is full; send the delivery again")
        if each.verdict != "duplicate":
            duplicate = False
        taken.append({"job_id": each.job_id, "target": job.target})
    announce(call, jobs, submitted, now_s=now_s)
    return {"jobs": taken, "duplicate": duplicate}


async def submit_matches(call: Call, trigger: Trigger, matches: list[Match], *, now_s: float) -> dict[str, Any]:
    """What a delivery is answered with, once its jobs are taken in, all of them or none; raises StoreError."""
    jobs = _jobs_of(call, trigger, matches, now_s=now_s)
    submitted = await call.gateway.store.submit_together(jobs, until_s=call.until_s)
    return _take_in(call, jobs, submitted, now_s=now_s)


async def _unrouted(arrival: Arrival, delivery: Delivery) -> Reply:
    """Kept before it is acknowledged: a route that is added later can have it replayed."""
    call = arrival.call
    noted = _noted(arrival, delivery, "unrouted")
    await call.in_time(lambda: call.gateway.journal.write(arrival.trigger, noted))
    call.gateway.metrics.count_delivery(arrival.trigger.name, "unrouted")
    log.info("delivery unrouted", trigger=arrival.trigger.name, kind=(delivery.event or "")[:64])
    return _taken(arrival.trigger, {"jobs": [], "duplicate": False})


async def _result(call: Call, trigger: Trigger, job_id: str, otherwise: Reply) -> Reply:
    """The first job's result, if it comes in time; 502 if the job is dead, so that the provider sends again."""
    record = await await_record(call, job_id, float(trigger.reception.sync_timeout))
    if record is None or not record.status.finished:
        return otherwise
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
    return Reply(custom.status or 200, body, custom.content_type.encode())


def _taken(trigger: Trigger, answer: dict[str, Any]) -> Reply:
    reception, custom = trigger.reception, trigger.reception.response
    if custom is None or (reception.sync and custom.status is None and custom.body is None):
        return json_reply(answer, 202)
    return Reply(custom.status or 200, (custom.body or "").encode(), custom.content_type.encode())


def _admit(arrival: Arrival, delivery: Delivery, limit: DeliveryLimit) -> None:
    """Raises Refused (503) over the trigger's limit; only what verifies counts, so nobody else can use it up."""
    gateway, name, now_s = arrival.call.gateway, arrival.trigger.name, arrival.at_s
    wait_s = gateway.meters.wait_s(name, limit.rate, limit.burst, now_s=now_s)
    if wait_s > 0:
        gateway.metrics.count_delivery(name, "limited")
        passed_over = gateway.meters.noted.passed_over(name, now_s=now_s)
        if passed_over is not None:
            others = f", as {passed_over} more since the last one here" if passed_over else ""
            _note(arrival, delivery, "limited", reason=f"over the limit{others}")
        raise over_limit(wait_s)


def _rejected(arrival: Arrival, reason: str) -> Refused:
    gateway, name = arrival.call.gateway, arrival.trigger.name
    gateway.metrics.count_delivery(name, "rejected")
    gateway.metrics.count_rejected_delivery(name, reason)
    gateway.rejections.tell(name, reason, now_s=arrival.at_s)
    _note(arrival, None, "rejected", reason=reason)
    return Refused(401, "the delivery does not verify")


def _failed(arrival: Arrival, error: BaseException) -> Refused:
    """For a fault of the verifier itself: the log tells it, less what is secret, in whatever words a plugin put it."""
    trigger, request = arrival.trigger, arrival.request
    secrets = [*secrets_of(trigger.verifier.config), *secrets_sent(request.headers, request.url)]
    told = hide_text("".join(traceback.format_exception(error)).rstrip(), secrets)
    log.error("a verifier failed", trigger=trigger.name, verifier=trigger.verifier.name, exception=told)
    return Refused(500, UNEXPECTED)


def _note(
    arrival: Arrival,
    delivery: Delivery | None,
    verdict: Verdict,
    *,
    jobs: Sequence[tuple[str, str]] = (),
    reason: str = "",
) -> None:
    noted = _noted(arrival, delivery, verdict, jobs=jobs, reason=reason)
    arrival.call.gateway.journal.note(arrival.trigger, noted)


def _noted(
    arrival: Arrival,
    delivery: Delivery | None,
    verdict: Verdict,
    *,
    jobs: Sequence[tuple[str, str]] = (),
    reason: str = "",
) -> Noted:
    at_ms = int(arrival.at_s * 1000)
    return Noted(arrival.request, at_ms, verdict, delivery, jobs, reason, _sender(arrival.call))


def _handshake(arrival: Arrival, answer: HandshakeResponse, delivery: Delivery | None = None) -> Reply:
    if not isinstance(answer, HandshakeResponse):
        name = arrival.trigger.verifier.name
        raise TypeError(f"verifier {name!r} answered with {type(answer).__name__}, not with a HandshakeResponse")
    arrival.call.gateway.metrics.count_delivery(arrival.trigger.name, "handshake")
    _note(arrival, delivery, "handshake")
    headers = tuple((key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in answer.headers)
    return Reply(answer.status, answer.body, b"", headers)

"""`POST /jobs/{job_id}/complete`, `/fail` and `/heartbeat`: for targets that answered 202 and finish later.

The token that came with the attempt says who may; no API key is needed.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
import structlog
from msgspec import Meta

from gateway.api.call import Call
from gateway.api.json_bodies import optional_body
from gateway.api.problems import Refused
from gateway.api.reply import Reply, json_reply
from gateway.completion import read_completion_token
from gateway.durations import Duration
from gateway.errors import Fault, InvalidRequest, StoreError
from gateway.events import EventType, JobEvent
from gateway.jobs import NULL, Outcome, Record, Settlement
from gateway.results import encode_error, encode_progress, encode_result, error_type, verbatim
from gateway.signers import signing_keys
from gateway.store.completion import heartbeat, settle_elsewhere
from gateway.timestamps import timestamp
from gateway.transitions import ENDING_LINES

HEADER = b"gateway-token"
log = structlog.get_logger(__name__)


class CompleteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result, any JSON value; the token, where it is not in the header `gateway-token`."""

    token: str | None = None
    result: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)


class FailBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What went wrong, whether it may be tried again (it may, if left out), and how long to wait at least."""

    token: str | None = None
    type: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    message: Annotated[str, Meta(max_length=1024)] | None = None
    retry: bool = True
    after: Duration | None = None


class HeartbeatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the work is, any small JSON value."""

    token: str | None = None
    progress: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)


async def complete(call: Call) -> Reply:
    """200 with the job's status; WrongState if the token was used, or the deadline has passed."""
    body = await optional_body(call, CompleteBody)
    try:
        result = encode_result(verbatim(bytes(body.result)))
    except (ValueError, TypeError) as exc:
        raise InvalidRequest(f"the result cannot be kept: {exc}", faults=[Fault("/result", str(exc))]) from exc
    return await _settled(call, body.token, "succeeded", result=result)


async def fail(call: Call) -> Reply:
    """200 with the job's status: retrying, or dead where it may not be tried again."""
    body = await optional_body(call, FailBody)
    error = encode_error(body.type or "failed", body.message or "the target says that it failed")
    if not body.retry:
        return await _settled(call, body.token, "dead", reason="fatal", error=error)
    return await _settled(call, body.token, "retry", error=error, delay_ms=round((body.after or 0) * 1000))


async def beat(call: Call) -> Reply:
    """200 with the new deadline."""
    body = await optional_body(call, HeartbeatBody)
    job_id, token = _held(call, body.token)
    try:
        progress = "" if body.progress is NULL else encode_progress(verbatim(bytes(body.progress)))
    except (ValueError, TypeError) as exc:
        raise InvalidRequest("the progress cannot be kept", faults=[Fault("/progress", str(exc))]) from exc
    deadline_ms = await call.in_time(lambda: heartbeat(call.gateway.store, job_id, token, progress=progress))
    return json_reply({"job_id": job_id, "deadline": timestamp(deadline_ms)})


async def _settled(
    call: Call,
    given: str | None,
    outcome: Outcome,
    *,
    reason: str = "",
    result: str = "",
    error: str = "",
    delay_ms: int = 0,
) -> Reply:
    job_id, token = _held(call, given)
    store = call.gateway.store
    settlement = Settlement(job_id, token, outcome, delay_ms, reason, result, error)
    status = await call.in_time(lambda: settle_elsewhere(store, settlement))
    await _tell(call, settlement, status)
    return json_reply({"job_id": job_id, "status": status})


async def _tell(call: Call, settlement: Settlement, status: str) -> None:
    """The line and the event of it; the record is looked up where one of them is due."""
    due = call.gateway.transitions.room(ENDING_LINES[status], 1)
    listeners = call.gateway.registry.listeners
    if not due and not listeners.listening:
        return
    record = await _record(call, settlement.job_id)
    if due:
        facts = _facts(settlement, record, status)
        if status == "dead":
            facts["see"] = f"gateway jobs get {settlement.job_id}"
        call.gateway.transitions.write(ENDING_LINES[status], warning=status == "dead", **facts)
    if listeners.listening and record is not None:
        listeners.emit(_event(call, record, settlement, status))


async def _record(call: Call, job_id: str) -> Record | None:
    """None where it cannot be had: what is settled is settled, whatever can be told of it."""
    try:
        (found,) = await call.in_time(lambda: call.gateway.store.find_many([job_id], short=True))
    except StoreError as error:
        log.warning("ended, but its record was not read", job_id=job_id, error=str(error))
        return None
    return found.record if found is not None else None


def _facts(settlement: Settlement, record: Record | None, status: str) -> dict[str, Any]:
    """What the line of an attempt says, as a dispatcher writes it."""
    facts: dict[str, Any] = {"job_id": settlement.job_id}
    if record is not None:
        facts |= {"target": record.target, "lane": record.lane}
    facts["attempt"] = settlement.attempt
    if settlement.error:
        facts["error"] = error_type(settlement.error)
    if status == "dead":
        facts["reason"] = record.reason if record is not None else settlement.shown_reason
    elif status == "retrying" and record is not None and record.next_attempt_ms is not None:
        facts["delay_ms"] = record.next_attempt_ms - record.updated_ms
    return facts


def _event(call: Call, record: Record, settlement: Settlement, status: str) -> JobEvent:
    reason = record.reason or settlement.shown_reason
    at_ms = int(call.gateway.clock() * 1000)
    return JobEvent(
        cast("EventType", status),
        record.job_id,
        record.target,
        record.lane,
        at_ms,
        settlement.attempt,
        reason,
        error_type(settlement.error),
    )


def _held(call: Call, given: str | None) -> tuple[str, str]:
    """The job and the fencing token; Refused (401) if the token is none of ours for this job."""
    job_id = call.path_value("job_id")
    header = call.headers.one(HEADER)
    text = given or (header or b"").decode("latin-1")
    keys = signing_keys(call.gateway.settings.gateway, call.gateway.store)
    token = read_completion_token(keys, job_id, text)
    if token is None:
        raise Refused(401, "this needs the token that came with the attempt, in the header gateway-token or the body")
    return job_id, token

"""A SubmitBody into a Submission: names resolved, older names folded into one, every fault named."""

from __future__ import annotations

import re

import msgspec

from gateway.backoff import RetryPolicy
from gateway.jobs import URL_TARGET, JobRequest, Options, Submission
from gateway.submission.body import SubmitBody
from gateway.submission.catalog import Caller, Catalog, TargetFacts
from gateway.submission.checks import check_callback, check_fields, check_idempotency_key
from gateway.submission.choices import (
    check_order,
    choose_attempts,
    choose_lane,
    choose_retry,
    choose_start,
    choose_target,
)
from gateway.submission.decoding import decode_body
from gateway.submission.faults import Faults
from gateway.submission.fingerprint import idempotency
from gateway.submission.request import choose_request, choose_url_target, host_of

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z", re.ASCII)


def parse_submission(text: bytes, catalog: Catalog, *, caller: Caller, now_s: float) -> Submission:
    """The job that a body asks for, at `now_s` (Unix seconds); `text` has passed `check_text`.

    Raises InvalidRequest (400: no JSON, 422: with every fault), or NotFound if all that is wrong is the target.
    """
    faults = Faults()
    body = decode_body(text, faults)
    if body.url is None:
        target = choose_target(body, catalog.targets, faults)
    else:
        target = choose_url_target(body, catalog, caller, faults)
    host = host_of(body.url, catalog, faults)
    request = choose_request(body, target, faults)
    lane, priority = choose_lane(body, catalog.lanes, faults)
    delay_ms, run_at_s = choose_start(body, faults, now_s=now_s)
    check_order(body, target, faults)
    attempts = choose_attempts(body, faults)
    retry = choose_retry(body, target, faults)
    idempotency_key = check_idempotency_key(body, caller.idempotency_key, faults)
    check_fields(body, faults)
    if body.callback is not None:
        check_callback(body.callback, catalog.allowed, faults)
    faults.raise_any()
    assert target is not None
    name = URL_TARGET if host else body.target or body.type or ""
    key = host or body.key or ""
    idempotent = None
    if idempotency_key:
        folded = msgspec.structs.replace(
            body,
            target=name,
            lane=lane,
            priority=priority,
            run_at=run_at_s,
            max_attempts=attempts,
            **dict.fromkeys(("type", "run_after", "scheduled_at", "max_retries", "idempotency_key")),
        )
        idempotent = idempotency(folded, idempotency_key, caller.name, window_ms=catalog.window_ms)
    return Submission(
        job_id=catalog.new_id(int(now_s * 1000), target=name, key=key, idempotency_key=idempotency_key),
        target=name,
        payload=bytes(body.payload),
        lane=lane or catalog.lane_of(target),
        priority=priority or 0,
        key=key,
        delay_ms=delay_ms,
        expires_ms=round(body.expires_in * 1000) if body.expires_in else 0,
        max_attempts=attempts or (retry or target.retry).max_attempts,
        idempotency=idempotent,
        options=_options(body, target, retry, request, caller),
    )


def _options(
    body: SubmitBody, target: TargetFacts, retry: RetryPolicy | None, request: JobRequest | None, caller: Caller
) -> Options:
    return Options(
        timeout=None if body.timeout is None else float(body.timeout),
        retry=retry,
        callback=body.callback or caller.callback or target.callback,
        tags=body.tags or (),
        traceparent=caller.traceparent if caller.traceparent and _TRACEPARENT.match(caller.traceparent) else "",
        request=request,
    )

"""Jobs: submit, look at, list, cancel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import msgspec

from gateway.client.answers import (
    Accepted,
    BatchAnswer,
    CancelAnswer,
    Event,
    JobRecord,
    JobStatus,
    JobSummary,
    Timeline,
)
from gateway.client.bodies import JobBody, JobOptions, encode
from gateway.client.call import Call, Listing, answer, path
from gateway.jobs import Status

MOST_IN_BATCH = 1000
_EVENT_FIELDS = ("type", "at", "attempt")


class JobFilter(TypedDict, total=False):
    """Which jobs a listing is of."""

    status: Status | str
    target: str
    lane: str
    tag: str


def submit(target: str, payload: Any, options: JobOptions) -> Call[Accepted]:
    """A job; without an idempotency key it is repeated only where it cannot have arrived."""
    key = options.get("idempotency_key")
    return Call(
        method="POST",
        path="/jobs",
        read=answer(Accepted),
        content=encode({"target": target, "payload": payload, **options}),
        repeat="unsent" if key is None else "safe",
        idempotency_key=key,
    )


def run(target: str, payload: Any, options: JobOptions, *, hold_s: float) -> Call[Accepted | JobRecord]:
    """A job whose record comes back if it is over within `hold_s`."""
    plain = submit(target, payload, options)
    return _held(plain, hold_s, _accepted_or_record)


def submit_batch(bodies: list[bytes]) -> Call[BatchAnswer]:
    """Jobs that `encode_job` made, up to 1,000, each with an idempotency key of its own."""
    return Call(method="POST", path="/jobs/batch", read=answer(BatchAnswer), content=b"[" + b",".join(bodies) + b"]")


def encode_job(body: JobBody, key: str) -> bytes:
    """A job of a batch as JSON; `key` where it has none of its own."""
    return encode({"idempotency_key": key, **body})


def get(job_id: str, *, hold_s: float = 0.0) -> Call[JobRecord]:
    """The record; held back until the job is over, for up to `hold_s`."""
    plain = Call(method="GET", path=path("jobs", job_id), read=answer(JobRecord))
    return _held(plain, hold_s, plain.read) if hold_s >= 1 else plain


def get_status(job_id: str) -> Call[JobStatus]:
    """The short form of the record."""
    return Call(method="GET", path=path("jobs", job_id, "status"), read=answer(JobStatus))


def get_events(job_id: str) -> Call[Timeline]:
    """The timeline."""
    return Call(method="GET", path=path("jobs", job_id, "events"), read=_timeline)


def cancel(job_id: str) -> Call[CancelAnswer]:
    """Cancels a waiting job, asks a running one to stop."""
    return Call(method="DELETE", path=path("jobs", job_id), read=answer(CancelAnswer), repeat="unsent")


def list_jobs(page_size: int, **wanted: Unpack[JobFilter]) -> Listing[JobSummary]:
    """Jobs that fit: running ones first, then those that wait in their order, then the rest."""
    query = {name: str(value) for name, value in wanted.items()}
    first = Call(method="GET", path="/jobs", read=answer(dict[str, Any]), query={**query, "limit": str(page_size)})
    return Listing(first, "jobs", JobSummary)


def _held(call: Call[Any], hold_s: float, read: Callable[[bytes], Any]) -> Call[Any]:
    held_s = math.floor(hold_s)
    headers = {"Prefer": f"wait={held_s}"} if held_s else {}
    return dataclasses.replace(call, read=read, headers=headers, hold_s=held_s)


def _accepted_or_record(body: bytes) -> Accepted | JobRecord:
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.decode(body, type=JobRecord if "target" in fields else Accepted)


def _timeline(body: bytes) -> Timeline:
    whole = msgspec.json.decode(body, type=dict[str, Any])
    events = [
        msgspec.convert(
            {name: each[name] for name in _EVENT_FIELDS if name in each}
            | {"facts": {name: value for name, value in each.items() if name not in _EVENT_FIELDS}},
            Event,
        )
        for each in whole["events"]
    ]
    return Timeline(job_id=whole["job_id"], events=events)

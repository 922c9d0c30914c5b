"""The answers as types: what `/openapi.json` says of them, and what the tests hold them to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from gateway.apikeys import Scope
from gateway.jobs import Reason, Status

StatusOrGone = Literal["scheduled", "pending", "running", "retrying", "succeeded", "dead", "cancelled", "gone"]


class _Model(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Absent facts are absent, and nothing else is there."""


class ProblemFault(_Model):
    """One fault: a JSON pointer into the body (`""`: all of it), or a query parameter's name."""

    pointer: str
    detail: str


class Problem(_Model):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemFault]


class Accepted(_Model):
    """A job taken in, or the earlier one that the request repeats."""

    job_id: str
    status: StatusOrGone
    duplicate: bool = False


class BatchResult(_Model):
    """What became of one job of a batch: id and status, or the problem."""

    job_id: str | None = None
    status: StatusOrGone | None = None
    duplicate: bool = False
    error: Problem | None = None


class BatchAnswer(_Model):
    """One result for each job, in order."""

    results: list[BatchResult]


class CallbackState(_Model):
    """The job that delivers the callback."""

    job_id: str
    status: StatusOrGone


class JobSummary(_Model):
    """A record without payload and result."""

    job_id: str
    target: str
    status: Status
    lane: str
    priority: int
    attempts: int
    max_attempts: int
    stalls: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    next_attempt_at: datetime | None = None
    key: str | None = None
    reason: Reason | None = None
    traceparent: str | None = None
    error: dict[str, Any] | None = None
    tags: list[str] = []
    callback: CallbackState | None = None


class JobRecord(JobSummary):
    """All that is known of a job; `payload` and `result` are the bytes that were sent and given."""

    payload: Any = None
    result: Any = None


class JobStatus(_Model):
    """The short form of a record."""

    job_id: str
    status: Status
    attempts: int
    max_attempts: int
    updated_at: datetime
    next_attempt_at: datetime | None = None
    reason: Reason | None = None


class Event(msgspec.Struct):
    """Something that happened to a job; what else is known of it stands beside these."""

    type: str
    at: datetime
    attempt: int = 0


class Timeline(_Model):
    """What happened, the oldest first."""

    job_id: str
    events: list[Event]


class JobPage(_Model):
    """A page of a listing; `next_cursor` asks for the next one, and is null on the last."""

    jobs: list[JobSummary]
    next_cursor: str | None


class CancelAnswer(_Model):
    """`cancelled`, or `running` where the dispatcher was asked to stop it."""

    job_id: str
    status: Literal["cancelled", "running"]


class DeliveryJob(_Model):
    """A job that a delivery became."""

    job_id: str
    target: str


class DeliveryAnswer(_Model):
    """The delivery's jobs, none where no route matches; the first ones where it was a repeat."""

    jobs: list[DeliveryJob]
    duplicate: bool


class TargetName(_Model):
    """A target and what runs it."""

    name: str
    executor: str


class Targets(_Model):
    """The configured targets, by name."""

    targets: list[TargetName]


class LaneState(_Model):
    """How much waits in a lane."""

    lane: str
    pending: int
    oldest_seconds: float


class Lanes(_Model):
    """The lanes, the most urgent first."""

    lanes: list[LaneState]


class PublicKey(_Model):
    """What a receiver verifies signatures with, as `whpk_…`."""

    algorithm: str
    public_key: str


class SigningKeys(_Model):
    """The installation's public keys."""

    keys: list[PublicKey]


class KeyFacts(_Model):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: datetime


class Keys(_Model):
    """The API keys that were made, the oldest first."""

    apikeys: list[KeyFacts]


class MadeKey(_Model):
    """A new API key; `key` is shown this once."""

    id: str
    name: str
    scopes: list[Scope]
    key: str


class Alive(_Model):
    """The process answers; its event loop was this late."""

    status: Literal["alive"]
    loop_lag_ms: float


class Ready(_Model):
    """Whether work can be taken in, and why not."""

    status: Literal["ready", "unready"]
    reason: str | None = None

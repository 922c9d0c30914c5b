"""Jobs: taken in, looked at, ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from gateway.api.models.problems import Model, Problem
from gateway.jobs import CallbackEvent, Reason, Status

StatusOrGone = Literal["scheduled", "pending", "running", "retrying", "succeeded", "dead", "cancelled", "gone"]


WaitingOn = Literal["disabled", "paused", "breaker", "concurrency", "quota", "rate", "key", "lane", "suspect"]
"""What holds a pending job back: its target's pause or limits, or those of its key."""


class Accepted(Model):
    """A job taken in, or the earlier one that the request repeats."""

    job_id: str
    status: StatusOrGone
    duplicate: bool = False


class BatchResult(Model):
    """What became of one job of a batch: id and status, or the problem."""

    job_id: str | None = None
    status: StatusOrGone | None = None
    duplicate: bool = False
    error: Problem | None = None


class BatchAnswer(Model):
    """One result for each job, in order."""

    results: list[BatchResult]


class CallbackState(Model):
    """The job that delivers the callback."""

    job_id: str
    status: StatusOrGone


class CallbackCause(Model):
    """The job that a callback tells of, and what happened to it."""

    job_id: str
    event: CallbackEvent


class JobSummary(Model):
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
    waiting_on: WaitingOn | None = None
    traceparent: str | None = None
    error: dict[str, Any] | None = None
    progress: Any = None
    tags: list[str] = []
    callback: CallbackState | None = None
    callback_of: CallbackCause | None = None


class JobRecord(JobSummary):
    """All that is known of a job; `payload` and `result` are the bytes that were sent and given."""

    payload: Any = None
    result: Any = None


class JobStatus(Model):
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


class Timeline(Model):
    """What happened, the oldest first."""

    job_id: str
    events: list[Event]


class JobPage(Model):
    """A page of a listing; `next_cursor` asks for the next one, and is null on the last."""

    jobs: list[JobSummary]
    next_cursor: str | None


class CancelAnswer(Model):
    """`cancelled`, or `running` where the dispatcher was asked to stop it."""

    job_id: str
    status: Literal["cancelled", "running"]


class Ended(Model):
    """What became of a job by a word from elsewhere."""

    job_id: str
    status: Status


class Beaten(Model):
    """By when the next sign of life, or the end, must come."""

    job_id: str
    deadline: datetime

"""Jobs: taken in, looked at, ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from gateway.client.answers.problems import Answer, Problem
from gateway.jobs import Reason, Status

StatusOrGone = Literal["scheduled", "pending", "running", "retrying", "succeeded", "dead", "cancelled", "gone"]


class Accepted(Answer, frozen=True, kw_only=True):
    """A job taken in, or the earlier one that the request repeats."""

    job_id: str
    status: StatusOrGone
    duplicate: bool = False


class BatchResult(Answer, frozen=True, kw_only=True):
    """What became of one job of a batch: id and status, or the problem."""

    job_id: str | None = None
    status: StatusOrGone | None = None
    duplicate: bool = False
    error: Problem | None = None


class BatchAnswer(Answer, frozen=True, kw_only=True):
    """One result for each job, in order."""

    results: list[BatchResult]


class Ended(Answer, frozen=True, kw_only=True):
    """What became of a job by a word from elsewhere."""

    job_id: str
    status: Status


class Beaten(Answer, frozen=True, kw_only=True):
    """By when the next sign of life, or the end, must come."""

    job_id: str
    deadline: datetime


class CallbackState(Answer, frozen=True, kw_only=True):
    """The job that delivers the callback."""

    job_id: str
    status: StatusOrGone


class CallbackCause(Answer, frozen=True, kw_only=True):
    """The job that a callback tells of, and what happened to it."""

    job_id: str
    event: str


class JobSummary(Answer, frozen=True, kw_only=True):
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
    waiting_on: str | None = None
    traceparent: str | None = None
    error: dict[str, Any] | None = None
    progress: Any = None
    tags: list[str] = []
    callback: CallbackState | None = None
    callback_of: CallbackCause | None = None


class JobRecord(JobSummary, frozen=True, kw_only=True):
    """All that is known of a job."""

    payload: Any = None
    result: Any = None


class JobStatus(Answer, frozen=True, kw_only=True):
    """The short form of a record."""

    job_id: str
    status: Status
    attempts: int
    max_attempts: int
    updated_at: datetime
    next_attempt_at: datetime | None = None
    reason: Reason | None = None


class Event(Answer, frozen=True, kw_only=True):
    """Something that happened to a job; `facts` is what else is known of it, such as `error` or `delay_ms`."""

    type: str
    at: datetime
    attempt: int = 0
    facts: dict[str, Any] = {}


class Timeline(Answer, frozen=True, kw_only=True):
    """What happened, the oldest first."""

    job_id: str
    events: list[Event]


class JobPage(Answer, frozen=True, kw_only=True):
    """A page of a listing."""

    jobs: list[JobSummary]
    next_cursor: str | None = None


class CancelAnswer(Answer, frozen=True, kw_only=True):
    """`cancelled`, or `running` where the dispatcher was asked to stop it."""

    job_id: str
    status: Literal["cancelled", "running"]

"""What a gateway answers, as types: named as in `GET /openapi.json`, without what a newer gateway may add."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from gateway.apikeys import Scope
from gateway.jobs import Reason, Status
from gateway.schedules import Overlap, Source

StatusOrGone = Literal["scheduled", "pending", "running", "retrying", "succeeded", "dead", "cancelled", "gone"]


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that are absent are None, empty or False; times are aware."""


class ProblemFault(Answer, frozen=True, kw_only=True):
    """One fault: a JSON pointer into the body (`""`: all of it), or a query parameter's name."""

    pointer: str
    detail: str


class Problem(Answer, frozen=True, kw_only=True):
    """Why something was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemFault] = []


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


class ReplayStarted(Answer, frozen=True, kw_only=True):
    """A bulk replay that dispatchers carry on."""

    replay_id: str
    state: Literal["running"]


class ReplayWanted(Answer, frozen=True, kw_only=True):
    """Which dead jobs a bulk replay is for."""

    target: str | None = None
    reason: Reason | None = None
    dead_after: datetime | None = None
    dead_before: datetime | None = None


class ReplayChanges(Answer, frozen=True, kw_only=True):
    """What its jobs have instead of what they had."""

    max_attempts: int


class ReplayState(Answer, frozen=True, kw_only=True):
    """How far a bulk replay is: dead jobs that matched so far, those sent back, those that were dead no longer."""

    replay_id: str
    state: Literal["running", "done", "stopped"]
    matched: int
    replayed: int
    skipped: int
    filter: ReplayWanted
    rate: str
    created_at: datetime
    updated_at: datetime
    limit: int | None = None
    overrides: ReplayChanges | None = None


class Purged(Answer, frozen=True, kw_only=True):
    """How many dead jobs went, and where to go on."""

    purged: int
    next_cursor: str | None = None


class KeyLimitsShown(Answer, frozen=True, kw_only=True):
    """Limits as they are configured."""

    rate: str | None = None
    burst: int | None = None
    quota: str | None = None
    concurrency: int | None = None


class LimitsShown(KeyLimitsShown, frozen=True, kw_only=True):
    """A target's limits, and those of each of its keys."""

    per_key: KeyLimitsShown | None = None


class TargetShown(Answer, frozen=True, kw_only=True):
    """A target and how it stands: jobs that wait, by lane; jobs that run, where that is counted; why none may start."""

    name: str
    executor: str
    paused: bool
    pending: dict[str, int]
    running: int | None = None
    blocked: str | None = None
    lane: str | None = None
    limits: LimitsShown | None = None
    ordered: bool = False
    source: Source = "file"
    disabled_at: datetime | None = None
    replay_id: str | None = None
    config: dict[str, Any] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SentRequest(Answer, frozen=True, kw_only=True):
    """A request as it went out; header values that the target is configured with are kept back."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: str


class GivenAnswer(Answer, frozen=True, kw_only=True):
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: str
    truncated: bool


class ProbeError(Answer, frozen=True, kw_only=True):
    """Why an attempt would have failed."""

    type: str
    message: str


class Probed(Answer, frozen=True, kw_only=True):
    """A target's test: what was sent, what came back, and what an attempt would have made of it."""

    outcome: Literal["succeeded", "retry", "fatal"]
    duration_ms: int
    error: ProbeError | None = None
    request: SentRequest | None = None
    response: GivenAnswer | None = None


class RotatedSecret(Answer, frozen=True, kw_only=True):
    """A target's new secret, which cannot be had again."""

    name: str
    secret: str


class Targets(Answer, frozen=True, kw_only=True):
    """The targets, by name."""

    targets: list[TargetShown]


class TriggerShown(Answer, frozen=True, kw_only=True):
    """A trigger without its secrets, which are only counted; `fault` says why one cannot be used any more."""

    name: str
    source: Source
    path: str = ""
    url: str = ""
    verifier: str = ""
    routes: list[dict[str, Any]] = []
    secrets: int = 0
    config: dict[str, Any] = {}
    content: str | None = None
    body_limit: int | None = None
    allow_from: list[str] = []
    limit: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    sync: bool = False
    sync_timeout: float = 0.0
    deliveries: dict[str, Any] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None
    fault: str = ""


class Triggers(Answer, frozen=True, kw_only=True):
    """The triggers, by name."""

    triggers: list[TriggerShown]


class DeliveryJob(Answer, frozen=True, kw_only=True):
    """A job that a delivery became."""

    job_id: str
    target: str


class DeliveryAnswer(Answer, frozen=True, kw_only=True):
    """The delivery's jobs, none where no route matches; the first ones where it was a repeat."""

    jobs: list[DeliveryJob]
    duplicate: bool


class DeliverySummary(Answer, frozen=True, kw_only=True):
    """A request that came to a trigger, and what became of it."""

    id: str
    at: datetime
    verdict: str
    method: str
    path: str
    bytes: int
    jobs: list[DeliveryJob]
    event: str = ""
    reason: str = ""
    sender: str = ""


class DeliveryShown(DeliverySummary, frozen=True, kw_only=True):
    """With its headers, less what proves who sent it, and its body, if that was kept."""

    headers: list[tuple[str, str]] = []
    body_kept: bool = False
    body: str | None = None
    body_base64: str | None = None


class DeliveryPage(Answer, frozen=True, kw_only=True):
    """A page, the newest first."""

    deliveries: list[DeliverySummary]
    next_cursor: str | None = None


class LaneState(Answer, frozen=True, kw_only=True):
    """How much waits in a lane, and for how long its first job has."""

    lane: str
    pending: int
    oldest_seconds: float
    paused: bool


class Lanes(Answer, frozen=True, kw_only=True):
    """The lanes, the most urgent first."""

    lanes: list[LaneState]


class TargetStats(Answer, frozen=True, kw_only=True):
    """What happened to a target's jobs, by event, and what waits for it."""

    target: str
    events: dict[str, int]
    pending: int
    paused: bool
    blocked: str | None = None


class Stats(Answer, frozen=True, kw_only=True):
    """What waits, runs and is kept now; `events` and `targets` count since the data began."""

    lanes: list[LaneState]
    due: int
    running: int
    dead: int
    finished: int
    dispatchers: int
    late_seconds: float
    events: dict[str, int]
    targets: list[TargetStats]


class PublicKey(Answer, frozen=True, kw_only=True):
    """What a receiver verifies signatures with, as `whpk_…`."""

    algorithm: str
    public_key: str


class SigningKeys(Answer, frozen=True, kw_only=True):
    """The installation's public keys."""

    keys: list[PublicKey]


class DefaultCallback(Answer, frozen=True, kw_only=True):
    """The callback of an API key's jobs that name none, without its secret."""

    url: str
    events: list[str]


class KeyFacts(Answer, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    callback: DefaultCallback | None = None


class Keys(Answer, frozen=True, kw_only=True):
    """The API keys that were made, the oldest first."""

    apikeys: list[KeyFacts]


class MadeKey(Answer, frozen=True, kw_only=True):
    """A new API key; `key` is shown this once."""

    id: str
    name: str
    scopes: list[Scope]
    key: str


class Ready(Answer, frozen=True, kw_only=True):
    """Whether work can be taken in, and why not."""

    status: Literal["ready", "unready"]
    reason: str | None = None


class LastRun(Answer, frozen=True, kw_only=True):
    """The last job of a schedule, and the instant that it was made for."""

    job_id: str
    status: StatusOrGone
    run_at: datetime


class ScheduleSummary(Answer, frozen=True, kw_only=True):
    """A schedule as it stands; `missed` are slots given up, `overlapped` those that an unfinished job stood in."""

    name: str
    cron: str
    timezone: str
    target: str
    priority: int
    catch_up: str
    overlap: Overlap
    source: Source
    paused: bool
    fired: int
    missed: int
    overlapped: int
    created_at: datetime
    updated_at: datetime
    next_run_at: datetime | None = None
    last: LastRun | None = None
    lane: str | None = None
    key: str | None = None
    jitter: float | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    tags: list[str] = []


class ScheduleRecord(ScheduleSummary, frozen=True, kw_only=True):
    """A schedule with its payload."""

    payload: Any = None


class SchedulePage(Answer, frozen=True, kw_only=True):
    """A page of schedules by name."""

    schedules: list[ScheduleSummary]
    next_cursor: str | None = None

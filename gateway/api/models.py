"""The answers as types: what `/openapi.json` says of them, and what the tests hold them to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from gateway.apikeys import Scope
from gateway.deliveries import Verdict
from gateway.jobs import CallbackEvent, Reason, Status
from gateway.schedules import Overlap, Source
from gateway.settings import RouteSettings

StatusOrGone = Literal["scheduled", "pending", "running", "retrying", "succeeded", "dead", "cancelled", "gone"]


WaitingOn = Literal["disabled", "paused", "breaker", "concurrency", "quota", "rate", "key"]
"""What holds a pending job back: its target's pause or limits, or those of its key."""

BlockedBy = Literal["disabled", "paused", "breaker", "concurrency", "quota", "rate"]


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


class CallbackCause(_Model):
    """The job that a callback tells of, and what happened to it."""

    job_id: str
    event: CallbackEvent


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


class Ended(_Model):
    """What became of a job by a word from elsewhere."""

    job_id: str
    status: Status


class Beaten(_Model):
    """By when the next sign of life, or the end, must come."""

    job_id: str
    deadline: datetime


class DeliveryJob(_Model):
    """A job that a delivery became."""

    job_id: str
    target: str


class DeliveryAnswer(_Model):
    """The delivery's jobs, none where no route matches; the first ones where it was a repeat."""

    jobs: list[DeliveryJob]
    duplicate: bool


class TriggerBody(msgspec.Struct):
    """A trigger as `[triggers.<name>]` has it; the verifier's own keys stand beside these. Secrets are literal."""

    verifier: str
    routes: list[RouteSettings]
    secrets: list[str] = []


class TriggerShown(_Model):
    """A trigger without its secrets, which are only counted; `fault` says why one cannot be used any more."""

    name: str
    source: Literal["file", "api"]
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


class Triggers(_Model):
    """The triggers, by name."""

    triggers: list[TriggerShown]


class DeliverySummary(_Model):
    """A request that came to a trigger, and what became of it."""

    id: str
    at: datetime
    verdict: Verdict
    method: str
    path: str
    bytes: int
    jobs: list[DeliveryJob]
    event: str = ""
    reason: str = ""
    sender: str = ""


class DeliveryShown(DeliverySummary):
    """With its headers, less what proves who sent it, and its body, if that was kept."""

    headers: list[tuple[str, str]] = []
    body_kept: bool = False
    body: str | None = None
    body_base64: str | None = None


class DeliveryPage(_Model):
    """A page, the newest first; `next_cursor` asks for the next one, and is null on the last."""

    deliveries: list[DeliverySummary]
    next_cursor: str | None


class ReplayStarted(_Model):
    """A bulk replay that dispatchers carry on."""

    replay_id: str
    state: Literal["running"]


class ReplayWanted(_Model):
    """Which dead jobs a bulk replay is for."""

    target: str | None = None
    reason: Reason | None = None
    dead_after: datetime | None = None
    dead_before: datetime | None = None


class ReplayChanges(_Model):
    """What its jobs have instead of what they had."""

    max_attempts: int


class ReplayState(_Model):
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


class Purged(_Model):
    """How many dead jobs went, and where to go on; `next_cursor` is null at the end."""

    purged: int
    next_cursor: str | None


class KeyLimitsShown(_Model):
    """Limits as they are configured."""

    rate: str | None = None
    burst: int | None = None
    quota: str | None = None
    concurrency: int | None = None


class LimitsShown(KeyLimitsShown):
    """A target's limits, and those of each of its keys."""

    per_key: KeyLimitsShown | None = None


class TargetShown(_Model):
    """A target and how it stands: jobs that wait, by lane; jobs that run, where it has flows; why none may start."""

    name: str
    executor: str
    paused: bool
    pending: dict[str, int]
    running: int | None = None
    blocked: BlockedBy | None = None
    source: Literal["file", "api"] = "file"
    disabled_at: datetime | None = None
    replay_id: str | None = None
    lane: str | None = None
    limits: LimitsShown | None = None
    ordered: bool = False
    config: dict[str, Any] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SentRequest(_Model):
    """A request as it went out; header values that the target is configured with are kept back."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: str


class GivenAnswer(_Model):
    """An answer as it came, the body up to 4 KiB."""

    status: int
    headers: list[tuple[str, str]]
    body: str
    truncated: bool


class ProbeError(_Model):
    """What an attempt would have failed of."""

    type: str
    message: str


class Probed(_Model):
    """One request to a target, and what an attempt would have made of it."""

    outcome: Literal["succeeded", "parked", "retry", "fatal"]
    duration_ms: int
    error: ProbeError | None = None
    request: SentRequest | None = None
    response: GivenAnswer | None = None


class RotatedSecret(_Model):
    """A target's new secret; shown this once."""

    name: str
    secret: str


class Targets(_Model):
    """The configured targets, by name."""

    targets: list[TargetShown]


class LaneState(_Model):
    """How much waits in a lane."""

    lane: str
    pending: int
    oldest_seconds: float
    paused: bool


class Lanes(_Model):
    """The lanes, the most urgent first."""

    lanes: list[LaneState]


class TargetStats(_Model):
    """What happened to a target's jobs, by event; those of a target that is no longer there are still counted."""

    target: str
    events: dict[str, int]
    pending: int
    paused: bool
    blocked: BlockedBy | None = None


class Stats(_Model):
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


class PublicKey(_Model):
    """What a receiver verifies signatures with, as `whpk_…`."""

    algorithm: str
    public_key: str


class SigningKeys(_Model):
    """The installation's public keys."""

    keys: list[PublicKey]


class DefaultCallback(_Model):
    """The callback of an API key's jobs that name none, without its secret."""

    url: str
    events: list[CallbackEvent]


class KeyFacts(_Model):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    callback: DefaultCallback | None = None


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


class LastRun(_Model):
    """The last job of a schedule, and the instant that it was made for."""

    job_id: str
    status: StatusOrGone
    run_at: datetime


class ScheduleSummary(_Model):
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


class ScheduleRecord(ScheduleSummary):
    """A schedule with its payload, whose bytes are those that were sent."""

    payload: Any = None


class SchedulePage(_Model):
    """A page of schedules by name; `next_cursor` asks for the next one, and is null on the last."""

    schedules: list[ScheduleSummary]
    next_cursor: str | None

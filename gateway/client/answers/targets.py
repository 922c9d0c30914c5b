"""Targets, and what a probe of one showed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from gateway.client.answers.installation import DefaultCallback
from gateway.client.answers.problems import Answer
from gateway.schedules import Source


class KeyLimitsShown(Answer, frozen=True, kw_only=True):
    """Limits as they are configured."""

    rate: str | None = None
    burst: int | None = None
    quota: str | None = None
    concurrency: int | None = None


class LimitsShown(KeyLimitsShown, frozen=True, kw_only=True):
    """A target's limits, and those of each of its keys."""

    per_key: KeyLimitsShown | None = None


class RetryShown(Answer, frozen=True, kw_only=True):
    """A retry policy, in seconds; `gives_up_after` is about how long a job that keeps failing waits in all."""

    policy: str
    max_attempts: int
    base: float
    cap: float
    gives_up_after: float


class BreakerShown(Answer, frozen=True, kw_only=True):
    """A circuit breaker as it is configured, times in seconds."""

    ratio: float
    minimum: int
    window: float
    pause: float
    cap: float


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
    timeout: float | None = None
    retry: RetryShown | None = None
    breaker: BreakerShown | None = None
    callback: DefaultCallback | None = None
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

"""Targets, and what a probe of one showed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from gateway.api.models.problems import Model
from gateway.backoff import Policy
from gateway.jobs import CallbackEvent

BlockedBy = Literal["disabled", "paused", "breaker", "concurrency", "quota", "rate"]


class KeyLimitsShown(Model):
    """Limits as they are configured."""

    rate: str | None = None
    burst: int | None = None
    quota: str | None = None
    concurrency: int | None = None


class LimitsShown(KeyLimitsShown):
    """A target's limits, and those of each of its keys."""

    per_key: KeyLimitsShown | None = None


class RetryShown(Model):
    """A retry policy, in seconds; `gives_up_after` is about how long a job that keeps failing waits in all."""

    policy: Policy
    max_attempts: int
    base: float
    cap: float
    gives_up_after: float


class BreakerShown(Model):
    """A circuit breaker as it is configured, times in seconds."""

    ratio: float
    minimum: int
    window: float
    pause: float
    cap: float


class DefaultCallback(Model):
    """The callback of an API key's or a target's jobs that name none, without its secret."""

    url: str
    events: list[CallbackEvent]


class TargetShown(Model):
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
    timeout: float | None = None
    retry: RetryShown | None = None
    breaker: BreakerShown | None = None
    callback: DefaultCallback | None = None
    config: dict[str, Any] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SentRequest(Model):
    """A request as it went out; header values that the target is configured with are kept back."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: str


class GivenAnswer(Model):
    """An answer as it came, the body up to 4 KiB."""

    status: int
    headers: list[tuple[str, str]]
    body: str
    truncated: bool


class ProbeError(Model):
    """What an attempt would have failed of."""

    type: str
    message: str


class Probed(Model):
    """One request to a target, and what an attempt would have made of it."""

    outcome: Literal["succeeded", "parked", "retry", "fatal"]
    duration_ms: int
    error: ProbeError | None = None
    request: SentRequest | None = None
    response: GivenAnswer | None = None


class RotatedSecret(Model):
    """A target's new secret; shown this once."""

    name: str
    secret: str


class Targets(Model):
    """The configured targets, by name."""

    targets: list[TargetShown]

"""Retry delays: decorrelated jitter (the default), exponential and fixed."""

from __future__ import annotations

import random
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.durations import Duration

Policy = Literal["decorrelated", "exponential", "fixed"]
Attempts = Annotated[int, Meta(ge=1, le=1000)]


class RetryPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often and how far apart a job is tried; durations in seconds."""

    policy: Policy = "decorrelated"
    max_attempts: int = 5
    base: Duration = Duration(1.0)
    cap: Duration = Duration(600.0)

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= 1000:
            raise ValueError("max_attempts lies between 1 and 1000")
        if self.cap < self.base:
            raise ValueError("cap is less than base")


class RetryOverride(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The parts of a retry policy that a job sets for itself or its callback; durations such as `"10m"`, or seconds."""

    policy: Policy | None = None
    max_attempts: Attempts | None = None
    base: Duration | None = None
    cap: Duration | None = None

    def over(self, policy: RetryPolicy) -> RetryPolicy:
        """The policy with these parts in it; ValueError if they do not fit together."""
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(policy, **given)


def delay_s(policy: RetryPolicy, attempt: int, previous_s: float, rng: random.Random) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1); `previous_s` is the last delay, 0 at first.

    Decorrelated: `min(cap, uniform(base, 3 * previous))`, previous = base at first (Brooker, "Exponential
    Backoff And Jitter", 2015). Exponential: `min(cap, base * 2^(attempt-1))`. Fixed: `base`.
    """
    if policy.policy == "decorrelated":
        previous = max(previous_s, policy.base)
        return min(policy.cap, rng.uniform(policy.base, 3 * previous))
    if policy.policy == "exponential":
        return min(policy.cap, policy.base * 2.0 ** min(attempt - 1, 64))
    return float(policy.base)

"""Retry delays: decorrelated jitter (the default), exponential, with jitter or without, and fixed."""

from __future__ import annotations

import random
import statistics
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.durations import Duration

Policy = Literal["decorrelated", "exponential", "exponential-jitter", "fixed"]
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


CALLBACK_RETRY = RetryPolicy(policy="exponential-jitter", max_attempts=20, cap=Duration(6 * 3600.0))
"""Of callbacks: tried for about a day, since receivers are deployed, and are away overnight. Decorrelated jitter grows
by a tenth a step in its median, so that no number of attempts that one would choose lasts for hours."""


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
    Backoff And Jitter", 2015). Exponential: `min(cap, base * 2^(attempt-1))`, and with jitter uniform between the half
    of that and that ("equal jitter", ibid.). Fixed: `base`.
    """
    if policy.policy == "decorrelated":
        previous = max(previous_s, policy.base)
        return min(policy.cap, rng.uniform(policy.base, 3 * previous))
    if policy.policy == "fixed":
        return float(policy.base)
    full = min(policy.cap, policy.base * 2.0 ** min(attempt - 1, 64))
    return full if policy.policy == "exponential" else rng.uniform(full / 2, full)


@lru_cache(maxsize=1024)
def patience_s(policy: RetryPolicy) -> float:
    """About how many seconds a job that keeps failing waits in all before it is dead, beside what its attempts take.

    The mean; for decorrelated jitter, whose mean is that of a few long ones, the median of draws, always the same.
    """
    if policy.policy != "decorrelated":
        spread = 0.75 if policy.policy == "exponential-jitter" else 1.0
        plain = msgspec.structs.replace(policy, policy="fixed" if policy.policy == "fixed" else "exponential")
        return spread * _waited_s(plain, random.Random(0))  # noqa: S311 (draws nothing)
    rng = random.Random(5)  # noqa: S311 (a figure to show)
    draws = min(1001, max(5, 6000 // policy.max_attempts))
    return statistics.median(_waited_s(policy, rng) for _ in range(draws))


def _waited_s(policy: RetryPolicy, rng: random.Random) -> float:
    total_s = previous_s = 0.0
    for attempt in range(1, policy.max_attempts):
        previous_s = delay_s(policy, attempt, previous_s, rng)
        total_s += previous_s
    return total_s

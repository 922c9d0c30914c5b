"""Limits of a target: rate, quota and concurrency, for all of its jobs and for each job key."""

from __future__ import annotations

import math
import re

import msgspec

from gateway.breaker import Breaker, breaker_fields

_RATE = re.compile(r"(\d+(?:\.\d+)?)/(?:(\d{1,9})?(s|m|h|d))\Z", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_PER_S = 1_000_000
MIN_BURST_S = 0.05
"""A burst of less than 50 ms of the rate would lose the lateness of every wake-up (FLOWS: engine fault 21)."""


class Rate(str):
    """A count per time, such as `"10/s"`, `"100/m"`, `"5000/h"`, `"3/10s"`."""

    __slots__ = ("number", "per_s")
    number: float
    per_s: int

    def __new__(cls, text: object) -> Rate:
        found = _RATE.match(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError('not a rate; write a count per time, such as "10/s", "100/m" or "3/10s"')
        made = super().__new__(cls, text)
        made.number = float(found[1])
        made.per_s = int(found[2] or 1) * _UNITS_S[found[3]]
        if not 0 < made.number <= _MOST_PER_S * made.per_s or not 0 < made.per_s <= 366 * 86400:
            raise ValueError("a rate lies between 1 a year and 1,000,000 a second")
        return made


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of each job key, or (see Limits) of a whole target; absent means no limit.

    `rate` spreads jobs evenly (GCRA) and lets `burst` of them go at once; `quota` lets a number go in each fixed
    window, at any moment of it; `concurrency` is how many may run at once.
    """

    rate: Rate | None = None
    burst: int | None = None
    quota: Rate | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.burst is not None and self.rate is None:
            raise ValueError("burst goes with rate")
        if self.burst is not None and not 1 <= self.burst <= 1_000_000:
            raise ValueError("burst lies between 1 and 1,000,000")
        if self.concurrency is not None and not 1 <= self.concurrency <= 1_000_000:
            raise ValueError("concurrency lies between 1 and 1,000,000; to stop a target, pause it")
        if self.quota is not None and (self.quota.number < 1 or self.quota.number != int(self.quota.number)):
            raise ValueError('quota is a whole number per window, such as "1000/h"')

    def fields(self, prefix: str) -> dict[str, int]:
        """The limits as `lua/flow_control.lua` takes them; 0 means none."""
        rate, quota = self.rate, self.quota
        return {
            f"{prefix}concurrency": self.concurrency or 0,
            f"{prefix}interval": max(1, round(1e6 * rate.per_s / rate.number)) if rate else 0,
            f"{prefix}burst": self.burst or (_least_burst(rate) if rate else 0),
            f"{prefix}quota": int(quota.number) if quota else 0,
            f"{prefix}window": quota.per_s * 1_000_000 if quota else 0,
        }


class Limits(KeyLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A target's limits; `per_key` holds for each job key besides."""

    per_key: KeyLimits | None = None


def flow_fields(limits: Limits, *, ordered: bool, breaker: Breaker | None = None) -> dict[str, int]:
    """All that the store keeps of a target's limits."""
    per_key = limits.per_key or KeyLimits()
    own = {**limits.fields(""), **per_key.fields("key_"), "ordered": int(ordered)}
    return own | breaker_fields(breaker)


def _least_burst(rate: Rate) -> int:
    return max(2, math.ceil(rate.number / rate.per_s * MIN_BURST_S))

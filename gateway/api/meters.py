"""The limits of triggers: how many deliveries each takes, in this process."""

from __future__ import annotations

import math

from gateway.api.problems import Refused
from gateway.api.seldom import Seldom
from gateway.limits import Rate

NOTED_EVERY_S = 60.0
"""Of the deliveries over a trigger's limit one is noted, then no other for so long: a flood would push out what else is
noted apart."""


class Meters:
    """Spaces each trigger's deliveries out by its `limit` (GCRA); `noted` says which of those over it are noted."""

    def __init__(self) -> None:
        self.noted = Seldom(NOTED_EVERY_S)
        self._next: dict[str, float] = {}

    def wait_s(self, name: str, rate: Rate, burst: int, *, now_s: float) -> float:
        """0 if one may pass now, and counts it; else for how many seconds none may."""
        interval_s = rate.per_s / rate.number
        # what lies later than a whole burst is of a clock that was set back since
        next_s = self._next[name] = min(self._next.get(name, 0.0), now_s + burst * interval_s)
        at_s = max(next_s, now_s)
        ahead_s = at_s - now_s - interval_s * (burst - 1)
        if ahead_s > 1e-9:
            return ahead_s
        self._next[name] = at_s + interval_s
        return 0.0


def over_limit(wait_s: float) -> Refused:
    """503 and not 4xx: many providers never repeat what a 4xx refused."""
    return Refused(
        503,
        "more deliveries than this trigger's limit; send it again",
        headers=((b"retry-after", str(max(1, math.ceil(wait_s))).encode()),),
    )

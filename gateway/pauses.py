"""How long a loop of ours waits before it tries again what has failed; retries of jobs have policies (backoff)."""

from __future__ import annotations

import random


class Pauses:
    """Each about twice as long as the last one, up to a bound, with a jitter of a half either way: of many processes
    that lost the same server no two come back at once."""

    def __init__(self, least_s: float, most_s: float, *, rng: random.Random | None = None) -> None:
        self._least_s = self._pause_s = least_s
        self._most_s = most_s
        self._rng = rng or random.Random()  # noqa: S311 (jitter)

    def next_s(self) -> float:
        """How long to wait now."""
        pause_s = self._pause_s * self._rng.uniform(0.5, 1.5)
        self._pause_s = min(self._most_s, self._pause_s * 2)
        return pause_s

    def begin_anew(self) -> None:
        """It went well: the next failure is a first one."""
        self._pause_s = self._least_s

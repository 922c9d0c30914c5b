"""A clock that only moves when it is told to, for retry policies and for plugins that take a clock."""

from __future__ import annotations


class FakeClock:
    """Seconds that stand still: call it for the time, `advance` it; `waits` are the steps that it took."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Moves it on; raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back by {-seconds:g} s")
        self.now_s += seconds
        self.waits.append(seconds)

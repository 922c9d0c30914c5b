"""A target's circuit breaker, written apart from the scripts' way of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Breaker:
    """The attempts of the present window, how often it opened in a row, and the job that tries when half open."""

    window_at: int = 0
    good: int = 0
    bad: int = 0
    trips: int = 0
    probe: str = ""

    def count(self, fields: dict[str, int], now_us: int, *, failed: bool) -> bool:
        """An attempt ended while it was closed: does it open?"""
        if now_us - self.window_at >= fields.get("breaker_window", 0):
            self.window_at, self.good, self.bad = now_us, 0, 0
        self.good += not failed
        self.bad += failed
        total = self.good + self.bad
        share = self.bad / total
        return failed and total >= fields["breaker"] and share * 100 >= fields.get("breaker_ratio", 0)

    def trip(self, fields: dict[str, int], now_us: int) -> int:
        """It opens: until when."""
        self.trips += 1
        self.window_at = self.good = self.bad = 0
        pause = fields.get("breaker_pause", 0) << (self.trips - 1)
        return now_us + min(pause, fields.get("breaker_cap", 0))

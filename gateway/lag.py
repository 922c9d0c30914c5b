"""How late the event loop is: the one figure that tells a blocked process from a slow Redis."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

EVERY_S = 0.25
BLOCKED_S = 0.25
"""So late, and the loop counts as having been blocked."""

WINDOW = 60
"""Looks that the worst lag is of: about a quarter of a minute, so that a scrape sees what was between two of them."""


class LoopLag(Collector):
    """Measures while `run` runs; `seconds` is how late the last wake-up was, `worst_s` the latest of the last ones."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.blocked = 0
        self._last = deque([0.0], maxlen=WINDOW)
        self._due_s: float | None = None

    @property
    def worst_s(self) -> float:
        return max(self._last)

    @property
    def behind_s(self) -> float:
        """How late the loop is right now."""
        return 0.0 if self._due_s is None else max(0.0, asyncio.get_running_loop().time() - self._due_s)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._due_s = clock() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self.seconds = max(0.0, clock() - self._due_s)
            self._last.append(self.seconds)
            self.blocked += self.seconds >= BLOCKED_S

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "gateway_loop_lag_seconds", "How late the event loop was at worst in the last 15 s", value=self.worst_s
        )
        yield CounterMetricFamily(
            "gateway_loop_blocked", f"How often the event loop was {BLOCKED_S:g} s late or more", value=self.blocked
        )

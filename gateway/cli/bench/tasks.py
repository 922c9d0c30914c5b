"""The callables that measurements run."""

from __future__ import annotations

import asyncio
import time
from typing import Any


class Lateness:
    """How late jobs started, in seconds; `complete` is set once `expected` did."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.expected = 0
        self.complete = asyncio.Event()

    def expect(self, jobs: int) -> None:
        """Starts anew."""
        self.seconds, self.expected = [], jobs
        self.complete.clear()

    def add(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self.expected:
            self.complete.set()


LATENESS = Lateness()


async def noop(payload: Any) -> None:
    """Does nothing."""


async def note(payload: dict[str, float]) -> None:
    """Notes how long after `due` (Unix seconds) it started."""
    LATENESS.add(time.time() - payload["due"])

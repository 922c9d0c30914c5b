"""What a thread does: one call after the other, as they come."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

Outcome = tuple[Any, BaseException | None]
"""What a call returned, and what it raised: a pair, since a future refuses to carry StopIteration."""


class Work:
    """A call, and what has become of it; all but `make` belongs to the loop, where `end` is called when it is over."""

    __slots__ = ("_call", "end", "function", "future", "left", "loop", "over")

    def __init__(self, function: str, call: Callable[[], Any], end: Callable[[Work, Outcome], None]) -> None:
        self.function = function
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Outcome] = self.loop.create_future()
        self.end = end
        self.left = False
        self.over = False
        self._call = call

    def make(self) -> Outcome:
        if self.future.cancelled():
            return None, None
        try:
            return self._call(), None
        except BaseException as exc:  # raised again where the call is awaited
            return None, exc


def serve(works: queue.SimpleQueue[Work | None]) -> None:
    """Makes the calls that come until None does."""
    while (work := works.get()) is not None:
        outcome = work.make()
        try:
            work.loop.call_soon_threadsafe(work.end, work, outcome)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return
        del work, outcome  # or an idle thread would keep the last payload alive

"""A thread that makes one call after the other, and such a call."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

Outcome = tuple[Any, BaseException | None]
"""What a call returned, and what it raised: a pair, since a future refuses to carry StopIteration."""


class Work:
    """A call, and what has become of it; all but `make` belongs to the loop."""

    __slots__ = ("_call", "function", "future", "left", "loop", "over")

    def __init__(
        self,
        function: str,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Outcome],
        call: Callable[[], Any],
    ) -> None:
        self.function = function
        self.loop = loop
        self.future = future
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


class Thread:
    """A thread that makes one call after the other; `over` is called in the loop after each."""

    def __init__(self, over: Callable[[Thread, Work, Outcome], None], name: str) -> None:
        self._over = over
        self._mail: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def begin(self, work: Work) -> None:
        self._mail.put(work)

    def end(self) -> None:
        self._mail.put(None)

    def _serve(self) -> None:
        while (work := self._mail.get()) is not None:
            outcome = work.make()
            try:
                work.loop.call_soon_threadsafe(self._over, self, work, outcome)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            del work, outcome  # or an idle thread would keep the last payload alive

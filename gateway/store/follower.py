"""One follower of live events: what it wants of them, and a bounded queue of what it has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

KINDS = (
    "accepted",
    "started",
    "succeeded",
    "retrying",
    "dead",
    "cancelled",
    "released",
    "reclaimed",
    "replayed",
)
"""What happens to jobs."""

End = Literal["slow", "stopping", "lost", "gone"]

PAST_MOST = 10_000
"""Events that may come while those of before are handed over."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something that just happened to a job; `note` is the reason of a death or the delay (ms) of a retry, `position`
    where to go on after it."""

    type: str
    job_id: str
    target: str
    lane: str
    at_ms: int
    attempt: int
    note: str
    position: str


class Follower:
    """Takes the events that `wants` lets pass. One that does not keep up has its stream ended, never its queue grown.

    `render` makes the message of an event, `most` is how many messages may wait.
    """

    def __init__(
        self, *, wants: Callable[[LiveEvent], bool], render: Callable[[LiveEvent], bytes], gap: bytes, most: int
    ) -> None:
        self.ended: End | None = None
        self._wants = wants
        self._render = render
        self._gap = gap
        self._most = most
        self._queue: deque[bytes] = deque()
        self._early: deque[LiveEvent] | None = deque()
        self._there = asyncio.Event()
        self._taken = asyncio.Event()

    def take(self, event: LiveEvent) -> None:
        """An event of now; waits until those of before are through."""
        if self.ended is not None:
            return
        if self._early is None:
            self._put(event)
        elif len(self._early) < PAST_MOST:
            self._early.append(event)
        else:
            self.end("slow")

    async def take_past(self, event: LiveEvent) -> None:
        """An event of before; waits while the queue is full, since these are there to be read at any pace."""
        while len(self._queue) >= self._most and self.ended is None:
            self._taken.clear()
            await self._taken.wait()
        self._put(event)

    async def begin(self) -> None:
        """Those of before are through: now come those that arrived meanwhile, then the live ones."""
        while self._early:
            await self.take_past(self._early.popleft())
        self._early = None

    def gap(self) -> None:
        """Events were missed."""
        self._queue.append(self._gap)
        self._there.set()

    def end(self, why: End) -> None:
        """Nothing comes any more."""
        self.ended = self.ended or why
        self._there.set()
        self._taken.set()

    async def next(self, timeout_s: float) -> list[bytes]:
        """The messages that wait, as soon as there are any; none after `timeout_s`, or at the end."""
        if not self._queue and self.ended is None:
            self._there.clear()
            try:
                await asyncio.wait_for(self._there.wait(), timeout_s)
            except TimeoutError:
                return []
        out = list(self._queue)
        self._queue.clear()
        self._taken.set()
        return out

    def _put(self, event: LiveEvent) -> None:
        if not self._wants(event):
            return
        if len(self._queue) >= self._most:
            self.end("slow")
            return
        self._queue.append(self._render(event))
        self._there.set()

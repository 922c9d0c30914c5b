"""The log of what happens to jobs: a line for each transition, and a bound on how many lines a second that may be.

The rule: of each kind of transition the first `LINES_A_S` in a second have a line each; the rest of that second is
counted, and told in one line at its end. So at low rates every transition is there, and at high ones the log grows no
faster than a little, and its figures still add up.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

ENDING_LINES = {
    "succeeded": "job succeeded",
    "retrying": "retry scheduled",
    "dead": "job dead",
    "cancelled": "job cancelled",
    "pending": "job released",
}
"""What the end of an attempt is called, by the status that its job has then."""

LINES_A_S = 10
WINDOW_S = 1.0

log = structlog.get_logger(__name__)


class Transitions:
    """Writes the lines of one process; `wanted` False writes none, and costs nothing."""

    def __init__(self, *, wanted: bool = True, clock: Callable[[], float] = monotonic) -> None:
        self.wanted = wanted
        self._clock = clock
        self._began_s = 0.0
        self._written: defaultdict[str, int] = defaultdict(int)
        self._untold: defaultdict[str, int] = defaultdict(int)
        self._timer: asyncio.TimerHandle | None = None

    def room(self, event: str, count: int) -> int:
        """How many of so many may have a line of their own now; the others are counted."""
        if not self.wanted or not count:
            return 0
        now_s = self._clock()
        if now_s - self._began_s >= WINDOW_S:
            self._began_s = now_s
            self._written.clear()
        room = LINES_A_S - self._written[event]
        if room < count:
            self._untold[event] += count - room
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self.flush)
        else:
            room = count
        if room:
            self._written[event] += room
        return room

    def some_of(self, event: str, items: Sequence[T]) -> Sequence[T]:
        """Those of a batch that have a line of their own now."""
        return items[: self.room(event, len(items))]

    def tell(self, event: str, items: Sequence[T], facts_of: Callable[[T], dict[str, Any]]) -> None:
        """A line for each of a batch, as far as there is room."""
        for item in self.some_of(event, items):
            log.info(event, **facts_of(item))

    def one(self, event: str, *, warning: bool = False, **facts: Any) -> None:
        """The line of one transition, if there is room."""
        if self.room(event, 1):
            self.write(event, warning=warning, **facts)

    def write(self, event: str, *, warning: bool = False, **facts: Any) -> None:
        """A line for which `some_of` had room."""
        (log.warning if warning else log.info)(event, **facts)

    def flush(self) -> None:
        """Tells what was only counted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        untold, self._untold = self._untold, defaultdict(int)
        if untold:
            log.info(
                "transitions without a line", **{event.replace(" ", "_"): untold[event] for event in sorted(untold)}
            )

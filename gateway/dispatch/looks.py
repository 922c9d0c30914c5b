"""When a claim loop looks for work of which nobody tells: what comes due, and the poll."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from time import perf_counter

from gateway.dispatch.ahead import AHEAD_US, ASK_S

POLL_S = (0.5, 1.0)
"""Between these, at random: what guarantees progress when a wake-up is lost."""

POLLED_PARTITIONS = 4
"""With more partitions each is polled less often, so that an idle dispatcher makes no more claims than with these."""

EARLY_S = 0.0001
"""So much before it is to look the loop does, at most: asked in vain, Redis says how long is left."""


class Looks:
    """Knows when to look next, by `perf_counter`: the event loop's clock has whole milliseconds.

    `look` is called then, if it was armed since it last was. One timer serves many changes of the time: one that runs
    too early is set anew.
    """

    def __init__(self, look: Callable[[], None], *, rng: random.Random, partitions: int) -> None:
        self._look = look
        self._rng = rng
        stretch = max(1.0, partitions / POLLED_PARTITIONS)
        self._poll_s, self._poll_most_s = POLL_S[0] * stretch, POLL_S[1] * stretch
        self._at_s = self._timer_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def claimed(self, sent_s: float, wake_in_s: float | None, *, asked_ahead: bool) -> None:
        """Told when a claim was sent, and how long after it the next job was due, if one is known.

        From when it was sent: Redis told the time a little later, and the next claim is as long on its way.
        """
        self._at_s = sent_s + self._wait_s(wake_in_s, asked_ahead=asked_ahead)

    def handed(self, wake_in_s: float | None) -> None:
        """Told the same by a claim that was made from elsewhere, just now."""
        self.expect(perf_counter() + self._wait_s(wake_in_s, asked_ahead=False))

    def expect(self, at_s: float) -> None:
        """There will be something by then."""
        self._at_s = min(self._at_s, at_s)

    def arm(self) -> None:
        """From now on it looks when it is time."""
        if self._timer is not None:
            if self._timer_at_s <= self._at_s:
                return
            self._timer.cancel()
        self._timer_at_s = self._at_s
        self._timer = asyncio.get_running_loop().call_later(self._at_s - perf_counter(), self._run)

    def stop(self) -> None:
        """It looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def is_time(self) -> bool:
        """Whether it is; then the next look is a poll away, should this one be put off for want of slots."""
        now_s = perf_counter()
        if now_s < self._at_s - EARLY_S:  # timers have whole milliseconds, and some run early
            return False
        self._at_s = now_s + self._poll_most_s
        return True

    def _run(self) -> None:
        self._timer = None
        self._look()

    def _wait_s(self, wake_in_s: float | None, *, asked_ahead: bool) -> float:
        """How long after a claim there may be something to do, of which nobody tells."""
        poll_s = self._poll_s + (self._poll_most_s - self._poll_s) * self._rng.random()
        if wake_in_s is None:
            return poll_s
        if asked_ahead and wake_in_s * 1e6 <= AHEAD_US:  # what is due so soon is not to be had before
            return min(poll_s, wake_in_s)
        return min(poll_s, max(0.0, wake_in_s - ASK_S))

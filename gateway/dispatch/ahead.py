"""Jobs that were claimed a little before they are due: held, and started on time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from gateway.dispatch.calls import Call
from gateway.jobs import Claimed
from gateway.store.claimed import Arrivals

ASK_S = 0.005
"""So much before jobs are due they are asked for: their claim takes about 2 ms where they are a hundred, and where it
brings none of them it has woken Redis and this process for the one that does, which takes a third of the time."""

AHEAD_US = 7000
"""So much before they are due jobs may come: a timer may run a millisecond early, and the claim has a way to go."""

_TURNED_S = 0.001
"""A timer has whole milliseconds, and may run one early: what is left then the loop turns off."""

_KNOWN_S = 10.0
"""So long what one answer told of the server's clock counts: those of two machines that are kept right part by some
10 us meanwhile."""


class ServerClock:
    """When it is what time by the server's clock, at the latest: as if the answer that was the quickest to come of the
    last few had taken no time at all. This machine's own time of day is not asked, so it may be any."""

    def __init__(self) -> None:
        self._behind_s = self._older_s = math.inf
        self._since_s = -math.inf

    def saw(self, call: Call, jobs: Arrivals) -> None:
        """Told of an answer: the server's time in it is a whole millisecond, but exact in one that is to be held."""
        came_s, told_s = call.came_s, jobs.due_s - jobs.hold_us / 1e6
        if call.sent_s - told_s - (0.0 if jobs.hold_us else 0.001) > min(self._behind_s, self._older_s):
            self._behind_s = self._older_s = math.inf  # the server's clock was put back
        if came_s - self._since_s >= _KNOWN_S / 2:
            self._older_s = self._behind_s if came_s - self._since_s < _KNOWN_S else math.inf
            self._behind_s, self._since_s = math.inf, came_s
        self._behind_s = min(self._behind_s, came_s - told_s)

    def due_s(self, call: Call, jobs: Arrivals) -> float:
        """When what was answered may start, by `perf_counter`: no earlier than it is due."""
        if not jobs.hold_us:
            return call.came_s
        return jobs.due_s + min(self._behind_s, self._older_s)


@dataclass(slots=True, eq=False)
class _Batch:
    jobs: list[Claimed]
    asked_s: float
    due_s: float
    handle: asyncio.Handle | None = None


class Ahead:
    """Holds jobs until they are due, and gives them to `start` then, in the turn of the loop in which they are.

    `start` gets them as a claim loop does: the jobs, and when they were asked for first.
    """

    def __init__(self, start: Callable[[Sequence[Claimed], float], None]) -> None:
        self._start = start
        self._batches: list[_Batch] = []

    def __bool__(self) -> bool:
        """Whether any job is held."""
        return bool(self._batches)

    def hold(self, jobs: Sequence[Claimed], asked_s: float, *, due_s: float) -> None:
        """Holds these until then; both times by `perf_counter`."""
        batch = _Batch(list(jobs), asked_s, due_s)
        self._batches.append(batch)
        self._go_on(batch)

    def take(self, job_id: str) -> Claimed | None:
        """Takes a job out, which is then not started; None if it is not held."""
        for batch in self._batches:
            for job in batch.jobs:
                if job.job_id == job_id:
                    batch.jobs.remove(job)
                    if not batch.jobs:
                        self._drop(batch)
                    return job
        return None

    def drop(self) -> None:
        """Starts none of what is held: its leases run out."""
        while self._batches:
            self._drop(self._batches[0])

    def _drop(self, batch: _Batch) -> None:
        self._batches.remove(batch)
        if batch.handle is not None:
            batch.handle.cancel()

    def _go_on(self, batch: _Batch) -> None:
        left_s = batch.due_s - perf_counter()
        loop = asyncio.get_running_loop()
        if left_s <= 0:
            self._batches.remove(batch)
            self._start(batch.jobs, batch.asked_s)
        elif left_s > 2 * _TURNED_S:
            batch.handle = loop.call_later(int((left_s - _TURNED_S) * 1000) / 1000, self._go_on, batch)
        else:
            batch.handle = loop.call_soon(self._go_on, batch)

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


_DISTRUST_S = 60.0
"""Once this machine's clock showed another time than the server's it is not taken for the same for so long."""


class Clocks:
    """Whether this machine's clock may be the server's: it is, unless an answer tells of a time outside of its call.

    A slow one shows less than a fast one, so what one has shown counts for a while.
    """

    def __init__(self) -> None:
        self._apart_until_s = -math.inf

    def saw(self, call: Call, jobs: Arrivals) -> None:
        """Told of an answer: the server's time in it is a whole millisecond, but exact in one that is to be held."""
        told_s = jobs.due_s - jobs.hold_us / 1e6
        if told_s > call.came_at_s or told_s + (0.0 if jobs.hold_us else 0.001) < call.sent_at_s:
            self._apart_until_s = call.came_s + _DISTRUST_S

    def due_s(self, call: Call, jobs: Arrivals) -> float:
        """When what was answered may start, by `perf_counter`.

        By this machine's clock, if that is the server's; else what is left counts from the answer: nothing is early.
        """
        if jobs.hold_us and call.came_s >= self._apart_until_s:
            return call.came_s + jobs.due_s - call.came_at_s
        return call.came_s + jobs.hold_us / 1e6


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

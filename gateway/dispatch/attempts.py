"""The attempts under way: a task each, from claim to settlement."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Literal

from gateway.dispatch.blocked import Holder
from gateway.jobs import Claimed, Settlement
from gateway.runner import Runner

End = Literal["cancelled", "released", "lost", "timeout"]

SWEEP_S = 0.05
"""How often deadlines are looked at: a timer for each attempt would cost more than a short job itself."""


class Running:
    """A job that this process holds: `end` says what its cancellation means; times are the loop's."""

    __slots__ = ("cancelled", "claimed", "deadline_s", "end", "started_s", "task")

    def __init__(self, claimed: Claimed, started_s: float) -> None:
        self.claimed = claimed
        self.cancelled = asyncio.Event()
        self.started_s = started_s
        self.deadline_s = math.inf
        self.task: asyncio.Task[None] | None = None
        self.end: End = "released"

    def set_deadline(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s


class Attempts:
    """Runs claimed jobs, and holds each until its outcome is written: until then its lease is renewed."""

    def __init__(self, runner: Runner, *, done: Callable[[Running, Settlement | None], None]) -> None:
        self.held: dict[str, Running] = {}
        self._runner = runner
        self._done = done
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._sweep: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def active(self) -> int:
        """Attempts whose executor has not returned."""
        return self._active

    def start(self, claimed: Claimed) -> None:
        """Starts an attempt as a task of its own; an older one of the same job has lost its lease."""
        self.end(claimed.job_id, "lost")
        loop = asyncio.get_running_loop()
        running = Running(claimed, loop.time())
        self.held[claimed.job_id] = running
        self._active += 1
        self._idle.clear()
        self._empty.clear()
        running.task = loop.create_task(self._run(running))
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_S, self._end_overdue)

    def forget(self, job_id: str, token: str) -> Running | None:
        """The attempt is settled, or lost: its lease needs no more renewal. A later one of the same job is kept."""
        running = self.held.get(job_id)
        if running is None or running.claimed.token != token:
            return None
        del self.held[job_id]
        if not self.held:
            self._empty.set()
        return running

    def end(self, job_id: str, end: End, *, token: str = "") -> bool:
        """Cancels a running attempt: its job ends cancelled, is released, or was lost to another dispatcher.

        With a token, only that attempt: what is known of an earlier one says nothing of it. Was there one to cancel?
        """
        running = self.held.get(job_id)
        if running is None or running.task is None or running.task.done():
            return False
        if token and running.claimed.token != token:
            return False
        running.deadline_s = math.inf
        running.end = end
        if end == "cancelled":
            running.cancelled.set()
        running.task.cancel()
        return True

    def holder(self, task: asyncio.Task[object] | None) -> Holder:
        """Whose a task is; from any thread."""
        for running in list(self.held.values()) if task is not None else []:
            if running.task is task:
                return Holder(running.claimed.target, running.claimed.job_id)
        return Holder()

    def _end_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for job_id in [job_id for job_id, running in self.held.items() if running.deadline_s <= now]:
            self.end(job_id, "timeout")
        self._sweep = loop.call_later(SWEEP_S, self._end_overdue) if self.held else None

    async def wait_idle(self) -> None:
        """Returns once no attempt is under way."""
        await self._idle.wait()

    async def wait_empty(self) -> None:
        """Returns once every outcome is written."""
        await self._empty.wait()

    async def _run(self, running: Running) -> None:
        claimed = running.claimed
        settlement: Settlement | None = None
        try:
            settlement = await self._runner.run(claimed, running.cancelled, deadline=running.set_deadline)
        except asyncio.CancelledError:
            if running.end == "timeout":
                settlement = self._runner.timed_out(claimed)
            elif running.end != "lost":
                settlement = Settlement(claimed.job_id, claimed.token, running.end)
        finally:
            self._active -= 1
            if self._active == 0:
                self._idle.set()
            self._done(running, settlement)

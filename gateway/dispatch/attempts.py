"""The attempts under way: a task each, from claim to settlement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gateway.jobs import Claimed, Settlement
from gateway.runner import Runner

End = Literal["cancelled", "released", "lost"]


@dataclass(slots=True, eq=False)
class Running:
    """A job that this process holds: `end` says what its cancellation means, `started_s` is loop time."""

    claimed: Claimed
    cancelled: asyncio.Event
    started_s: float
    task: asyncio.Task[None] | None = None
    end: End = "released"


class Attempts:
    """Runs claimed jobs, and holds each until its outcome is written: until then its lease is renewed."""

    def __init__(self, runner: Runner, *, done: Callable[[Running, Settlement | None], None]) -> None:
        self.held: dict[str, Running] = {}
        self._runner = runner
        self._done = done
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def active(self) -> int:
        """Attempts whose executor has not returned."""
        return self._active

    def start(self, claimed: Claimed) -> None:
        """Starts an attempt as a task of its own."""
        loop = asyncio.get_running_loop()
        running = Running(claimed, asyncio.Event(), loop.time())
        self.held[claimed.job_id] = running
        self._active += 1
        self._idle.clear()
        self._empty.clear()
        running.task = loop.create_task(self._run(running))

    def forget(self, job_id: str) -> Running | None:
        """The job is settled, or lost: its lease needs no more renewal."""
        running = self.held.pop(job_id, None)
        if not self.held:
            self._empty.set()
        return running

    def end(self, job_id: str, end: End) -> None:
        """Cancels a running attempt: its job ends cancelled, is released, or was lost to another dispatcher."""
        running = self.held.get(job_id)
        if running is None or running.task is None or running.task.done():
            return
        running.end = end
        if end == "cancelled":
            running.cancelled.set()
        running.task.cancel()

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
            settlement = await self._runner.run(claimed, running.cancelled)
        except asyncio.CancelledError:
            if running.end != "lost":
                settlement = Settlement(claimed.job_id, claimed.token, running.end)
        finally:
            self._active -= 1
            if self._active == 0:
                self._idle.set()
            self._done(running, settlement)

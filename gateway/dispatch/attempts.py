"""The attempts under way, from claim to settlement.

Attempts that are over at their first step, as short jobs are, run one after another in one task, and are told of
together. The first that waits for something keeps the task for itself, and those after it get tasks of their own: a
task for each job, and its turns of the event loop, would cost as much as a short job itself.

An attempt that is cancelled and does not end is cancelled again, and left behind in the end: its job is settled, and
others have its slot, while its code goes on for as long as it swallows what would end it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from time import monotonic, perf_counter
from typing import Literal

import structlog

from gateway.dispatch.blocked import Holder
from gateway.dispatch.steps import rest_of
from gateway.jobs import Claimed, Settlement
from gateway.runner import Runner

End = Literal["cancelled", "released", "lost", "timeout"]
Over = tuple["Running", Settlement | None]
"""An attempt that has ended, and its outcome; none where another dispatcher has the job."""

SWEEP_S = 0.05
"""How often deadlines are looked at: a timer for each attempt would cost more than a short job itself."""

MOST_CANCELS = 3
"""After so many, with twice as long between them each time, an attempt that does not end is left behind."""

log = structlog.get_logger(__name__)


class Running:
    """A job that this process holds: `end` says what its cancellation means; times are the loop's.

    `deadline_s` is when it is ended, or, once that is `asked`, when it is cancelled again; `cancels` are those so far.
    `task` runs it now, None before and after: a task may run several, but never two at once. `until_s`, by
    `perf_counter`: an attempt that has not begun by then has lost its lease, or nearly.
    """

    __slots__ = (
        "asked",
        "cancelled",
        "cancels",
        "claimed",
        "deadline_s",
        "end",
        "over",
        "started_s",
        "task",
        "until_s",
    )

    def __init__(self, claimed: Claimed, started_s: float, until_s: float) -> None:
        self.claimed = claimed
        self.cancelled = asyncio.Event()
        self.started_s = started_s
        self.until_s = until_s
        self.deadline_s = math.inf
        self.task: asyncio.Task[None] | None = None
        self.end: End = "released"
        self.asked = False
        self.cancels = 0
        self.over = False

    def set_deadline(self, deadline_s: float) -> None:
        if not self.asked:  # else it has been ended already
            self.deadline_s = deadline_s


class Attempts:
    """Runs claimed jobs, and holds each until its outcome is written: until then its lease is renewed."""

    def __init__(self, runner: Runner, *, done: Callable[[Sequence[Over]], None]) -> None:
        self.held: dict[str, Running] = {}
        self._outdated: dict[tuple[str, str], Running] = {}
        """Those that are over, whose outcomes are still to be refused: their jobs are held by a later attempt."""
        self._runner = runner
        self._done = done
        self._tasks: set[asyncio.Task[None]] = set()
        self._active = 0
        self._over: list[Over] = []
        """Those that have ended in this step of a task, and are to be told of at its end."""
        self._idle = asyncio.Event()
        self._empty = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def active(self) -> int:
        """Attempts whose executor has not returned."""
        return self._active

    def start(self, jobs: Sequence[Claimed], *, until_s: float) -> None:
        """Starts an attempt of each in the loop's next turn; an older one of the same job has lost its lease.

        One that does not come to begin until then is given back: a process that stood still for so long may come to its
        senses between a claim and its start, and others run those jobs by now.
        """
        if (loop := self._loop) is None:
            loop = self._loop = asyncio.get_running_loop()
        now_s = monotonic()
        begun: list[Running] = []
        for claimed in jobs:
            older = self.held.get(claimed.job_id)
            if older is not None and not self.end(claimed.job_id, "lost"):
                self._outdated[claimed.job_id, older.claimed.token] = older
            running = Running(claimed, now_s, until_s)
            self.held[claimed.job_id] = running
            begun.append(running)
        self._active += len(begun)
        self._tasks.add(loop.create_task(self._run_all(begun)))
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_S, self._end_overdue)

    def forget(self, job_id: str, token: str) -> Running | None:
        """The attempt is settled, or lost: its lease needs no more renewal. A later one of the same job is kept."""
        running = self.held.get(job_id)
        if running is None or running.claimed.token != token:
            return self._outdated.pop((job_id, token), None)
        del self.held[job_id]
        if not self.held:
            self._empty.set()
        return running

    def end(self, job_id: str, end: End, *, token: str = "") -> bool:
        """Cancels a running attempt: its job ends cancelled, is released, or was lost to another dispatcher.

        With a token, only that attempt: what is known of an earlier one says nothing of it. Was there one to cancel?
        """
        running = self.held.get(job_id)
        if running is None or running.over:
            return False
        if token and running.claimed.token != token:
            return False
        running.end = end
        if end == "cancelled":
            running.cancelled.set()
        if running.asked:  # and cancelled, but has not ended yet: that is minded already
            return True
        running.asked = True
        self._cancel(running)
        return True

    def leave_behind(self, *, most_s: float) -> None:
        """Leaves behind what has been ended and should have been over in `most_s`, before this process exits."""
        for running in list(self.held.values()):
            if running.asked and running.task is not None and self._runner.ending_s(running.claimed) <= most_s:
                self._leave_one_behind(running)

    def holder(self, task: asyncio.Task[object] | None) -> Holder:
        """Whose a task is; from any thread."""
        for running in list(self.held.values()) if task is not None else []:
            if running.task is task:
                return Holder(running.claimed.target, running.claimed.job_id)
        return Holder()

    async def wait_idle(self) -> None:
        """Returns once no attempt is under way."""
        while self._active:
            self._idle.clear()
            await self._idle.wait()

    async def wait_empty(self) -> None:
        """Returns once every outcome is written."""
        while self.held:
            self._empty.clear()
            await self._empty.wait()

    async def _run_all(self, begun: Sequence[Running]) -> None:
        """Runs each, as long as none waits for anything or leaves traces in the task that the next one would find."""
        task = asyncio.current_task(self._loop)
        assert task is not None, "a coroutine of the event loop runs in a task"
        context = copy_context()
        left = iter(begun)
        try:
            for running in left:
                running.task = task
                attempt = self._run(running)
                try:
                    waits_for = attempt.send(None)
                except StopIteration:
                    if copy_context() == context and not task.cancelling():
                        continue
                    return
                self._tell_over()
                self._run_apart(left, context)
                await rest_of(attempt, waits_for)
        finally:
            self._tell_over()
            self._run_apart(left, context)
            self._tasks.discard(task)

    def _run_apart(self, begun: Iterable[Running], context: Context) -> None:
        for running in begun:
            alone = self._run_all((running,))
            self._tasks.add(asyncio.get_running_loop().create_task(alone, context=context.copy()))

    async def _run(self, running: Running) -> None:
        settlement: Settlement | None = None
        try:
            if running.asked or perf_counter() > running.until_s:
                settlement = self._as_asked(running)
            else:
                settlement = await self._runner.run(running.claimed, running.cancelled, deadline=running.set_deadline)
        except (asyncio.CancelledError, GeneratorExit) as error:
            if running.asked:
                settlement = self._as_asked(running)
            elif _runs_here(running.task):  # else the coroutine is closed with its loop
                settlement = self._runner.strayed(running.claimed, error)
        finally:
            running.task = None
            if not running.over:  # else it was left behind
                self._note_over(running, settlement)

    def _as_asked(self, running: Running) -> Settlement | None:
        """The outcome of an attempt that was ended from here, as `end` says; none where another dispatcher has it."""
        if running.end == "timeout":
            return self._runner.timed_out(running.claimed)
        if running.end == "lost":
            return None
        return Settlement(running.claimed.job_id, running.claimed.token, running.end)

    def _note_over(self, running: Running, settlement: Settlement | None) -> None:
        running.over = True
        self._active -= 1
        self._over.append((running, settlement))

    def _tell_over(self) -> None:
        if not self._over:
            return
        over, self._over = self._over, []
        if self._active == 0:
            self._idle.set()
        self._done(over)

    def _end_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for job_id in [job_id for job_id, running in self.held.items() if running.deadline_s <= now]:
            running = self.held[job_id]
            if not running.asked:
                self.end(job_id, "timeout")
            elif running.cancels < MOST_CANCELS:
                self._cancel(running)
            else:
                self._leave_one_behind(running)
        self._sweep = loop.call_later(SWEEP_S, self._end_overdue) if self.held else None

    def _cancel(self, running: Running) -> None:
        """Cancels it, and again after a while; where it has not begun, it is over when it does."""
        if running.task is not None:
            running.task.cancel()
            running.cancels += 1
        patience_s = self._runner.ending_s(running.claimed) * 2 ** max(0, running.cancels - 1)
        running.deadline_s = asyncio.get_running_loop().time() + patience_s

    def _leave_one_behind(self, running: Running) -> None:
        """The attempt is over, although its code is not."""
        running.deadline_s = math.inf
        if running.over:
            return
        job = running.claimed
        log.error(
            "an attempt does not end: its code swallows every cancellation",
            job_id=job.job_id,
            target=job.target,
            attempt=job.attempt,
            settled_as=running.end,
        )
        self._note_over(running, self._as_asked(running))
        self._tell_over()


def _runs_here(task: asyncio.Task[None] | None) -> bool:
    """Whether this is a step of the task."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False

"""The threads that sync functions run in."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from .thread import Outcome, Work, serve

log = structlog.get_logger("gateway.executors.python")

MOST_LEFT = 100
"""Calls that may be left behind beside those that are awaited."""

SHARE = 25
"""Of one function, when it is called no more: one that hangs must not take the threads of all."""


class Spent(Exception):
    """Calls of the function itself, left behind, keep it from another."""


class Threads:
    """Places for at most `limit` calls at once, each in a thread that later calls use again.

    A call that is cancelled leaves its thread behind, which nobody can stop, and frees its place: another thread is
    started in its stead. Up to `most_left` may be left behind; from then on each takes a place from all until it ends.
    A function gets no place while `share` calls of its own are left behind.

    Daemons, unlike those of `concurrent.futures`: a call that never returns must not keep the process from ending.
    To be used in one event loop.
    """

    def __init__(self, limit: int, *, most_left: int = MOST_LEFT, share: int = SHARE) -> None:
        self._limit = limit
        self._most_left = most_left
        self._share = share
        self._taken = 0
        self._left: Counter[str] = Counter()
        self._told: set[str] = set()
        self._works: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._count = 0
        self._begun = 0
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    def take(self, function: str) -> bool:
        """Takes a place, for the call of this function that `run` is given at once; False if there is none."""
        if not self._has_room() or self.is_spent(function):
            return False
        self._taken += 1
        return True

    async def wait(self, function: str) -> None:
        """Takes a place as soon as there is one, who has waited longest first; raises Spent when it comes to be so."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((function, future))
        try:
            await future
        except BaseException:
            if future.done() and not future.cancelled() and future.exception() is None:  # it came too late
                self._give_back()
            future.cancel()
            raise

    def is_spent(self, function: str) -> bool:
        """Whether calls of its own that were left behind keep this function from another."""
        return self._left[function] >= self._share

    def trouble(self) -> str:
        """Why calls wait that should not; empty if none has to."""
        if self._left.total() >= self._most_left:
            return (
                f"{self._left.total()} calls of sync functions did not end with their attempts, and hold their threads"
            )
        for function, left in self._left.items():
            if left >= self._share:
                return f"{left} calls of {function} did not end with their attempts: no more of it are begun"
        return ""

    async def run(self, function: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls in the place that was taken, with a copy of the caller's context; a cancelled call that has not begun
        never does."""
        work = Work(function, partial(contextvars.copy_context().run, call, *arguments), self._over)
        try:
            self._begin(work)
        except RuntimeError:  # the system has no more threads
            self._give_back()
            raise
        try:
            value, error = await work.future
        except BaseException:
            self._leave(work)
            raise
        if error is None:
            return value
        try:
            raise error
        finally:
            del error, work  # the traceback holds this frame, which must not hold the error in turn

    def close(self) -> None:
        """Lets every thread end once it has no work; waits for none."""
        for _ in range(self._count):
            self._works.put(None)

    def _has_room(self) -> bool:
        left = self._left.total() if self._left else 0
        return self._taken < self._limit - max(0, left - self._most_left)

    def _begin(self, work: Work) -> None:
        """There are as many threads as calls that are not over, so that each has one, whichever hang."""
        if self._begun == self._count:
            name = f"python-executor-{self._count + 1}"
            threading.Thread(target=serve, args=(self._works,), name=name, daemon=True).start()
            self._count += 1
        self._begun += 1
        self._works.put(work)

    def _over(self, work: Work, outcome: Outcome) -> None:
        work.over = True
        self._begun -= 1
        if self._count - self._begun > self._limit:  # more than could be used: others were left behind
            self._works.put(None)
            self._count -= 1
        if work.left:
            self._left[work.function] -= 1
            self._returned(work.function)
        else:
            self._taken -= 1
        self._admit()
        if not work.future.done():
            work.future.set_result(outcome)

    def _leave(self, work: Work) -> None:
        if work.over:
            return
        work.left = True
        self._left[work.function] += 1
        self._tell(work.function)
        if self.is_spent(work.function):
            for function, future in self._waiting:
                if function == work.function and not future.done():
                    future.set_exception(Spent)
        self._give_back()

    def _give_back(self) -> None:
        self._taken -= 1
        self._admit()

    def _admit(self) -> None:
        kept: list[tuple[str, asyncio.Future[None]]] = []
        while self._waiting and self._has_room():
            function, future = self._waiting.popleft()
            if future.done():
                continue
            if self.take(function):
                future.set_result(None)
            else:
                kept.append((function, future))
        self._waiting.extendleft(reversed(kept))

    def _tell(self, function: str) -> None:
        """Once at half of what may be left behind and once at all of it, until it is fewer again."""
        for name, left, most in (
            (function, self._left[function], self._share),
            ("", self._left.total(), self._most_left),
        ):
            half = left < most
            key = f"{name} {half}"
            if left < most // 2 or key in self._told:
                continue
            self._told.add(key)
            (log.warning if half else log.error)(
                "calls did not end with their attempts, and hold their threads",
                callable=name or "of all functions",
                calls=left,
                at_most=most,
                mend="let it time out by itself, or isolation = 'process'; if it hangs on, restart the dispatcher",
            )

    def _returned(self, function: str) -> None:
        if not self._left[function]:
            del self._left[function]
            self._told -= {f"{function} True", f"{function} False"}
        if self._left.total() < self._most_left // 4:
            self._told -= {" True", " False"}

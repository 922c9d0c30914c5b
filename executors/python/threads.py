"""The threads that sync functions run in."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

Outcome = tuple[Any, BaseException | None]
"""What a call returned, and what it raised: a pair, since a future refuses to carry StopIteration."""


class Threads:
    """At most `limit` threads, each started when there is work and none is idle.

    Daemons, unlike those of `concurrent.futures`: a call that never returns must not keep the process from ending.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def run(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Calls in a thread, with a copy of the caller's context; a cancelled call that has not begun never does."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        bound = partial(contextvars.copy_context().run, call, *arguments)
        try:
            self._submit(partial(_serve_one, loop, future, bound))
        except RuntimeError:  # the system has no more threads: the call must not be made after it has failed
            future.cancel()
            raise
        value, error = await future
        if error is None:
            return value
        try:
            raise error
        finally:
            del error, future  # the traceback holds this frame, which must not hold the error in turn

    def close(self) -> None:
        """Lets every thread end once it has no work; waits for none."""
        for _ in range(self._count):
            self._work.put(None)

    def _submit(self, work: Callable[[], None]) -> None:
        self._work.put(work)
        if not self._idle.acquire(blocking=False) and self._count < self._limit:
            threading.Thread(target=self._serve, name=f"python-executor-{self._count + 1}", daemon=True).start()
            self._count += 1

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # or an idle thread would keep the last payload alive
            self._idle.release()


def _serve_one(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Outcome], call: Callable[[], Any]) -> None:
    if future.cancelled():
        return
    outcome: Outcome
    try:
        outcome = call(), None
    except BaseException as exc:  # raised again where the call is awaited
        outcome = None, exc
    try:
        loop.call_soon_threadsafe(_deliver, future, outcome)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return


def _deliver(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)

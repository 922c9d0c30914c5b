"""Watches the event loop from a thread, and names who holds it: nothing else runs meanwhile, though leases are kept."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

LIMIT_S = 1.0
_EVERY_S = 0.25
_FRAMES = 4


@dataclass(frozen=True, slots=True)
class Holder:
    """The attempt whose task holds the loop; empty where it is none's (a callback, or a task that a job started)."""

    target: str = ""
    job_id: str = ""


class LoopWatch:
    """Logs and tells, once for each time that the loop is held longer than `limit_s`.

    `holder` is asked whose a task is, from the thread; `blocked` is told of it, from the thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        holder: Callable[[asyncio.Task[object] | None], Holder],
        blocked: Callable[[Holder], None],
        limit_s: float = LIMIT_S,
    ) -> None:
        self._loop = loop
        self._holder = holder
        self._blocked = blocked
        self._limit_s = limit_s
        self._loop_thread = threading.get_ident()
        self._beat_s = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loop-watch", daemon=True)

    def start(self) -> None:
        """To be called in the loop."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; to be called in the loop."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop.set()
        self._thread.join(timeout=5.0)

    def _beat(self) -> None:
        self._beat_s = time.monotonic()
        self._timer = self._loop.call_later(_EVERY_S, self._beat)

    def _run(self) -> None:
        told_s, asleep_s = 0.0, time.monotonic()
        while not self._stop.wait(_EVERY_S):
            woken_s, since_s = time.monotonic(), self._beat_s
            was_stopped = woken_s - asleep_s > _EVERY_S + self._limit_s  # the whole process was, this thread too
            asleep_s = woken_s
            if was_stopped or since_s == told_s or woken_s - since_s - _EVERY_S < self._limit_s:
                continue
            told_s = since_s
            self._tell()

    def _tell(self) -> None:
        holder = self._holder(asyncio.current_task(self._loop))
        self._blocked(holder)
        log.warning(
            "the event loop is blocked: every job of this dispatcher waits",
            target=holder.target,
            job_id=holder.job_id,
            at=self._place(),
            mend="run what blocks in a plain function, in asyncio.to_thread, or with isolation = 'process'",
        )

    def _place(self) -> list[str]:
        """Where the loop's thread is, the innermost last; places only, never values."""
        frame = sys._current_frames().get(self._loop_thread)
        found = traceback.extract_stack(frame, limit=_FRAMES) if frame is not None else []
        return [f"{Path(each.filename).name}:{each.lineno} in {each.name}" for each in found]

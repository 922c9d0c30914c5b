"""The hooks that are called while jobs run; one plugin's failure is logged, counted, and never another's."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Sequence

import structlog

from gateway.durations import MAX_S
from gateway.events import JobEvent
from gateway.executor import Job
from gateway.registry.loading import HookCall

log: structlog.stdlib.BoundLogger = structlog.get_logger("gateway.registry")


class Listeners:
    """Calls `job_event` and `retry_delay`, one implementation after the other; `failures` counts by plugin."""

    def __init__(self, *, job_event: Sequence[HookCall], retry_delay: Sequence[HookCall]) -> None:
        self._job_event = tuple(job_event)
        self._retry_delay = tuple(retry_delay)
        self.failures: Counter[str] = Counter()

    @property
    def listening(self) -> bool:
        """Whether any plugin wants events; a caller may skip making one that nobody would see."""
        return bool(self._job_event)

    def emit(self, event: JobEvent) -> None:
        """Tells every plugin of an event."""
        for call in self._job_event:
            try:
                call(event=event)
            except BaseException as exc:  # nothing is awaited here, so that it is the hook's own
                self._failed(call, exc, job_id=event.job_id, target=event.target)

    def retry_delay(self, job: Job, failure: BaseException) -> float | None:
        """The first delay (seconds) that a plugin wants, or None for the target's own policy."""
        for call in self._retry_delay:
            try:
                delay = _seconds(call(job=job, failure=failure))
            except BaseException as exc:  # likewise
                self._failed(call, exc, job_id=job.job_id, target=job.target)
                continue
            if delay is not None:
                return delay
        return None

    def _failed(self, call: HookCall, exc: BaseException, *, job_id: str, target: str) -> None:
        """Counts, and logs the 1st, 2nd, 4th, 8th …: a hook that always fails must not fill the disk."""
        self.failures[call.plugin] += 1
        count = self.failures[call.plugin]
        if count & (count - 1) == 0:
            log.error(
                "plugin hook failed",
                plugin=call.plugin,
                hook=call.hook,
                failures=count,
                job_id=job_id,
                target=target,
                exc_info=exc,
            )


def _seconds(delay: object) -> float | None:
    """A hook's answer, checked; raises TypeError or ValueError if it is no delay."""
    if delay is None:
        return None
    if inspect.iscoroutine(delay):
        delay.close()
    if not isinstance(delay, (int, float)) or isinstance(delay, bool):
        raise TypeError(f"retry_delay returned {type(delay).__name__}; return seconds or None")
    if not math.isfinite(delay) or not 0 <= delay <= MAX_S:
        raise ValueError(f"retry_delay returned {delay}; return seconds between 0 and {MAX_S:.0f}")
    return float(delay)

"""What a dispatcher tells of its jobs: figures, lines of the log, spans, and events for plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import structlog

from gateway.dispatch.blocked import Holder
from gateway.dispatch.endings import Settled, facts_of, tell_ended
from gateway.dispatch.metrics import DispatchMetrics
from gateway.events import EventType, JobEvent
from gateway.jobs import Claimed, Settlement
from gateway.registry.listeners import Listeners
from gateway.results import error_type
from gateway.store import Store
from gateway.tracing.attempts import AttemptSpans
from gateway.transitions import Transitions

log = structlog.get_logger(__name__)

TOLD_MOST = 50
"""Reclaimed jobs whose records are looked at, of each batch."""

_EVENTS: dict[str, EventType] = {
    "succeeded": "succeeded",
    "retrying": "retrying",
    "dead": "dead",
    "cancelled": "cancelled",
}


class Telling:
    """Told of every step of an attempt, tells those who want to know; none of them can hold the dispatcher up."""

    def __init__(
        self,
        dispatcher_id: str,
        *,
        listeners: Listeners,
        metrics: DispatchMetrics,
        transitions: Transitions,
        traces: AttemptSpans | None,
        wall_ms: Callable[[], int],
    ) -> None:
        self._dispatcher_id = dispatcher_id
        self._listeners = listeners
        self._metrics = metrics
        self._transitions = transitions
        self._traces = traces
        self._wall_ms = wall_ms
        if traces is not None:
            traces.dispatcher_id = dispatcher_id

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """A batch was claimed, and begins."""
        if self._traces is not None:
            self._traces.claimed(jobs)

    def started(self, jobs: Sequence[Claimed]) -> None:
        """They have begun."""
        self._metrics.claimed(jobs)
        self._transitions.tell("job started", jobs, self._started_facts)
        if self._listeners.listening:
            for job in jobs:
                self._emit("started", job)

    def done(self, job: Claimed, *, lost: bool) -> None:
        """A traced attempt is over; what became of its job is not written yet, or was `lost` to another dispatcher."""
        if self._traces is not None:
            self._traces.lost(job) if lost else self._traces.done(job)

    def settled(self, ended: Sequence[Settled]) -> None:
        """Outcomes are written."""
        self._metrics.settled(ended, monotonic())
        if self._transitions.wanted:
            tell_ended(self._transitions, ended, trace_of=self._trace_of)
        if self._traces is not None:
            for running, settlement, status in ended:
                if running.claimed.traced:
                    self._traces.settled(running.claimed, settlement, status)
        if self._listeners.listening:
            for running, settlement, status in ended:
                if status in _EVENTS:
                    self._emit(_EVENTS[status], running.claimed, settlement=settlement)

    async def taken_back(self, store: Store, taken: Sequence[tuple[str, str]]) -> None:
        """Jobs whose dispatchers were lost, and the status of each now; few, so that their records can be looked at."""
        for job_id, status in self._transitions.some_of("job reclaimed", taken):
            log.warning("job reclaimed", job_id=job_id, status=status, dispatcher=self._dispatcher_id)
        if self._traces is None:
            return
        found = await store.find_many([job_id for job_id, _ in taken[:TOLD_MOST]], short=True)
        for (job_id, status), each in zip(taken, found, strict=False):
            if each is not None:
                self._traces.reclaimed(job_id, each.record.target, each.record.options, status)

    def blocked(self, holder: Holder) -> None:
        """The event loop is held by an attempt; called from another thread."""
        self._metrics.blocked(holder.target)

    def flush(self) -> None:
        """Tells what was only gathered so far."""
        self._transitions.flush()
        if self._traces is not None:
            self._traces.flush()

    def _started_facts(self, job: Claimed) -> dict[str, Any]:
        return {"dispatcher": self._dispatcher_id, "waited_ms": job.waited_ms, **facts_of(job)}

    def _trace_of(self, job: Claimed) -> str:
        return self._traces.trace_of(job) if self._traces is not None else ""

    def _emit(self, type: EventType, job: Claimed, *, settlement: Settlement | None = None) -> None:
        reason, error = ("", "") if settlement is None else (settlement.shown_reason, settlement.error)
        self._listeners.emit(
            JobEvent(type, job.job_id, job.target, job.lane, self._wall_ms(), job.attempt, reason, error_type(error))
        )

"""What a dispatcher measures of itself; totals of jobs are the scripts' counters, read from Redis."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.dispatch.attempts import Running
from gateway.jobs import Claimed, Settlement

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class DispatchMetrics:
    """Counters and histograms of one dispatcher process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._duration = Histogram(
            "gateway_attempt_duration_seconds",
            "How long attempts took, from claim to outcome",
            ["lane", "outcome"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._wait = Histogram(
            "gateway_job_wait_seconds",
            "How long jobs were ready before they were claimed",
            ["lane"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._lost = Counter(
            "gateway_leases_lost", "Attempts whose lease was lost before they settled", registry=registry
        )
        self._removed = Counter("gateway_upkeep_removed", "Finished jobs that this process removed", registry=registry)
        self.active = Gauge("gateway_attempts_active", "Attempts under way", registry=registry)
        self.slots = Gauge("gateway_slots", "Attempts that may run at once", registry=registry)
        self._durations: dict[tuple[str, str], Histogram] = {}
        self._waits: dict[str, Histogram] = {}

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """Observes how long each waited."""
        for job in jobs:
            child = self._waits.get(job.lane)
            if child is None:
                child = self._waits[job.lane] = self._wait.labels(job.lane)
            child.observe(job.waited_ms / 1000)

    def settled(self, running: Running, settlement: Settlement, now_s: float) -> None:
        """Observes an attempt's duration."""
        at = (running.claimed.lane, settlement.outcome)
        child = self._durations.get(at)
        if child is None:
            child = self._durations[at] = self._duration.labels(*at)
        child.observe(now_s - running.started_s)

    def lost(self) -> None:
        """Counts an attempt whose lease was lost."""
        self._lost.inc()

    def removed(self, n: int) -> None:
        """Counts finished jobs that upkeep removed."""
        self._removed.inc(n)

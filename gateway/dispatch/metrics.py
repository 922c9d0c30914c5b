"""What a dispatcher measures of itself; totals of jobs are the scripts' counters, read from Redis."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from gateway.dispatch.attempts import Running
from gateway.jobs import Claimed, Settlement
from gateway.results import error_type

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

NAMED_ERRORS = frozenset(
    {"dns", "connect", "tls", "timeout", "egress_denied", "reset", "too_large", "protocol", "status", "config"}
    | {"retry", "fatal", "no_target"}
)
"""The errors that metrics tell apart; a plugin's own names are `other`, since nothing bounds their number."""


class Durations(Collector):
    """A histogram by labels, kept as plain counts: an observation is one bisection, where the library takes a lock."""

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._counts: dict[Any, list[int]] = {}
        self._sums: dict[Any, float] = {}

    def observe(self, labels: Any, seconds: float) -> None:
        """Counts one duration under `labels` (a string, or a tuple of as many as there are labels)."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(_SECONDS) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(_SECONDS, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, counts in list(self._counts.items()):
            total, buckets = 0, []
            for bound, count in zip((*map(str, map(float, _SECONDS)), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            values = [labels] if isinstance(labels, str) else list(labels)
            family.add_metric(values, buckets, self._sums[labels])
        yield family


class DispatchMetrics:
    """Counters and histograms of one dispatcher process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._duration = Durations(
            "gateway_attempt_duration_seconds", "How long attempts took, from claim to outcome", ["lane", "outcome"]
        )
        self._wait = Durations(
            "gateway_job_wait_seconds", "How long jobs were ready before they were claimed", ["lane"]
        )
        registry.register(self._duration)
        registry.register(self._wait)
        self._lost = Counter(
            "gateway_leases_lost", "Attempts whose lease was lost before they settled", registry=registry
        )
        self._errors = Counter(
            "gateway_attempt_errors", "Attempts that failed, by what went wrong", ["error"], registry=registry
        )
        self._blocked = Counter(
            "gateway_event_loop_blocked",
            "Times that the event loop was held for more than a second, by the target whose job held it",
            ["target"],
            registry=registry,
        )
        self._removed = Counter("gateway_upkeep_removed", "Finished jobs that this process removed", registry=registry)
        self.active = Gauge("gateway_attempts_active", "Attempts under way", registry=registry)
        self.slots = Gauge("gateway_slots", "Attempts that may run at once", registry=registry)

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """Observes how long each waited."""
        for job in jobs:
            self._wait.observe(job.lane, job.waited_ms / 1000)

    def settled(self, running: Running, settlement: Settlement, now_s: float) -> None:
        """Observes an attempt's duration."""
        self._duration.observe((running.claimed.lane, settlement.outcome), now_s - running.started_s)
        if settlement.error:
            kind = error_type(settlement.error)
            self._errors.labels(kind if kind in NAMED_ERRORS else "other").inc()

    def lost(self) -> None:
        """Counts an attempt whose lease was lost."""
        self._lost.inc()

    def blocked(self, target: str) -> None:
        """Counts a held event loop; empty where it was none of the targets. From any thread."""
        self._blocked.labels(target).inc()

    def removed(self, n: int) -> None:
        """Counts finished jobs that upkeep removed."""
        self._removed.inc(n)

"""What a dispatcher measures of itself; totals of jobs are the scripts' counters, read from Redis."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from gateway.dispatch.endings import Settled
from gateway.histograms import Counts, Histogram, Sums
from gateway.jobs import Claimed
from gateway.results import error_type

NAMED_ERRORS = frozenset(
    {"dns", "connect", "tls", "timeout", "egress_denied", "reset", "too_large", "protocol", "status", "config"}
    | {"retry", "fatal", "no_target", "result", "threads"}
)
"""The errors that metrics tell apart; a plugin's own names are `other`, since nothing bounds their number."""


class DispatchMetrics:
    """Counters and histograms of one dispatcher process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._duration = Histogram(
            "gateway_attempt_duration_seconds", "How long attempts took, from claim to outcome", ["lane", "outcome"]
        )
        self._by_target = Sums("gateway_target_attempt_seconds", "How long a target's attempts took", ["target"])
        self._wait = Histogram(
            "gateway_job_wait_seconds", "How long jobs were ready before they were claimed", ["lane"]
        )
        self._errors = Counts("gateway_attempt_errors", "Attempts that failed, by what went wrong", ["error"])
        self._lost = Counts("gateway_leases_lost", "Attempts whose lease was lost before they settled")
        self._removed = Counts("gateway_upkeep_removed", "Finished jobs that this process removed")
        self._blocked = Counts(
            "gateway_event_loop_blocked",
            "Times that the event loop was held for more than a second, by the target whose job held it",
            ["target"],
        )
        self._blocked.add("", n=0)
        own = (self._duration, self._by_target, self._wait, self._errors, self._lost, self._removed, self._blocked)
        for collector in own:
            registry.register(collector)
        self.active = Gauge("gateway_attempts_active", "Attempts under way", registry=registry)
        self.slots = Gauge("gateway_slots", "Attempts that may run at once", registry=registry)

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """Observes how long each waited."""
        by_lane: dict[str, list[float]] = {}
        lane = ""
        waits: list[float] = []
        for job in jobs:
            if job.lane != lane:  # most are of one lane: comparing costs less than hashing
                lane = job.lane
                waits = by_lane.setdefault(lane, [])
            waits.append(job.waited_ms / 1000)
        for lane, waits in by_lane.items():
            self._wait.observe_many(lane, waits)

    def settled(self, ended: Sequence[Settled], now_s: float) -> None:
        """Observes a batch: how long attempts took, what went wrong with those that failed, how many were lost."""
        groups: dict[tuple[str, str, str], list[float]] = {}
        lane = outcome = target = ""
        times: list[float] = []
        for running, settlement, status in ended:
            job = running.claimed
            if job.target != target or job.lane != lane or settlement.outcome != outcome:
                lane, outcome, target = job.lane, settlement.outcome, job.target
                times = groups.setdefault((lane, outcome, target), [])
            times.append(now_s - running.started_s)
            if settlement.error:
                kind = error_type(settlement.error)
                self._errors.add(kind if kind in NAMED_ERRORS else "other")
            if status == "lost":
                self.lost()
        for (lane, outcome, target), times in groups.items():
            self._duration.observe_many((lane, outcome), times)
            self._by_target.observe_many(target, times)

    def lost(self) -> None:
        """Counts an attempt whose lease was lost."""
        self._lost.add()

    def blocked(self, target: str) -> None:
        """Counts a held event loop; empty where it was none of the targets. From any thread."""
        self._blocked.add(target)

    def removed(self, n: int) -> None:
        """Counts finished jobs that upkeep removed."""
        self._removed.add(n=n)

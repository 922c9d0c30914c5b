"""What a process asks of Redis: round trips and how long they take, batch sizes, errors by kind."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.histograms import COUNTS, FAST_SECONDS, Counts, Histogram


class Calls(Collector):
    """Counts the calls of one client; a call is one script's, and its reply."""

    def __init__(self) -> None:
        self._durations = Histogram(
            "gateway_redis_call_duration_seconds", "Round trips to Redis", ["script"], bounds=FAST_SECONDS
        )
        self._batches = Histogram("gateway_redis_batch_jobs", "Jobs in one script call", ["script"], bounds=COUNTS)
        self._errors = Counts("gateway_redis_errors", "Round trips to Redis that failed", ["kind"])

    def took(self, script: str, seconds: float) -> None:
        """One round trip."""
        self._durations.observe(script, seconds)

    def batch(self, script: str, jobs: int) -> None:
        """One script call with so many jobs."""
        self._batches.observe(script, jobs)

    def failed(self, kind: str) -> None:
        """One round trip failed; `kind` is of `refusals.KINDS`."""
        self._errors.add(kind)

    def collect(self) -> Iterator[Metric]:
        yield from self._durations.collect()
        yield from self._batches.collect()
        yield from self._errors.collect()

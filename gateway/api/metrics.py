"""What this process counts of its own requests, and what Redis says of the whole installation."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.store import Inspection
from gateway.verifier import REASONS

REFUSALS = {
    400: "syntax",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method",
    408: "stalled",
    409: "state",
    413: "too_large",
    414: "target_too_long",
    415: "media_type",
    422: "schema",
    431: "headers",
    500: "error",
    503: "unavailable",
}
"""The closed set of reasons by which refused requests are counted."""


class ApiMetrics:
    """The counters of one gateway process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "gateway_http_requests", "Requests answered", ["route", "status"], registry=self.registry
        )
        self._rejections = Counter("gateway_rejections", "Requests refused", ["reason"], registry=self.registry)
        self._deliveries = Counter(
            "gateway_deliveries", "Webhook deliveries", ["trigger", "verdict"], registry=self.registry
        )
        self._rejected_deliveries = Counter(
            "gateway_delivery_rejections",
            "Deliveries that did not verify",
            ["trigger", "reason"],
            registry=self.registry,
        )
        self._lag = Gauge("gateway_loop_lag_seconds", "How late the event loop last was", registry=self.registry)
        self._children: dict[tuple[str, int], Counter] = {}

    def count_request(self, route: str, status: int) -> None:
        """Counts an answer; `route` is a path of the routes, never one of a request."""
        child = self._children.get((route, status))
        if child is None:
            child = self._children[route, status] = self._requests.labels(route, f"{status // 100}xx")
        child.inc()
        if status >= 400:
            self._rejections.labels(REFUSALS.get(status, "other")).inc()

    def count_delivery(self, trigger: str, verdict: str) -> None:
        self._deliveries.labels(trigger, verdict).inc()

    def count_rejected_delivery(self, trigger: str, reason: str) -> None:
        self._rejected_deliveries.labels(trigger, reason if reason in REASONS else "other").inc()

    def render(self, inspection: Inspection, *, lag_s: float) -> bytes:
        """All of it in the Prometheus text format."""
        self._lag.set(lag_s)
        figures = CollectorRegistry()
        figures.register(StoreFigures(inspection))
        return generate_latest(figures) + generate_latest(self.registry)


class StoreFigures(Collector):
    """One inspection of the store as metrics; any process of the installation shows the same ones."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def collect(self) -> Iterator[Metric]:
        yield from self._counters()
        yield from self._lanes()
        it = self._inspection
        for name, text, value in (
            ("gateway_jobs_due", "Jobs that wait for their time: scheduled or retrying", it.due),
            ("gateway_jobs_running", "Jobs under a lease", it.running),
            ("gateway_jobs_dead", "Jobs in the dead-letter queue", it.dead),
            ("gateway_jobs_finished", "Succeeded and cancelled jobs that are still kept", it.finished),
            ("gateway_dispatchers", "Dispatchers alive", it.dispatchers),
            ("gateway_due_late_seconds", "How long the oldest due job has been due", it.late_ms / 1000),
        ):
            yield GaugeMetricFamily(name, text, value=value)

    def _counters(self) -> Iterator[Metric]:
        jobs = CounterMetricFamily(
            "gateway_jobs", "Transitions of jobs, since the data began", labels=["event", "lane", "target"]
        )
        for name, value in sorted(self._inspection.counters.items()):
            parts = name.split(":")
            if len(parts) == 3:
                jobs.add_metric(parts, value)
            elif len(parts) == 1:
                yield CounterMetricFamily(f"gateway_{name}", "Counted by the scripts", value=value)
        yield jobs

    def _lanes(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("gateway_lane_depth", "Jobs that wait in a lane", labels=["lane"])
        oldest = GaugeMetricFamily(
            "gateway_lane_oldest_seconds", "How long a lane's first job has waited", labels=["lane"]
        )
        for lane, figures in self._inspection.lanes.items():
            depth.add_metric([lane], figures.pending)
            oldest.add_metric([lane], figures.waited_ms / 1000)
        yield depth
        yield oldest

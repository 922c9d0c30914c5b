"""What a gateway process counts of its own requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

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
        self._streams = Gauge("gateway_event_streams", "Streams of events that are open", registry=self.registry)
        self._children: dict[tuple[str, int], Counter] = {}
        self._delivery_children: dict[tuple[str, str], Counter] = {}

    def count_request(self, route: str, status: int) -> None:
        """Counts an answer; `route` is a path of the routes, never one of a request."""
        child = self._children.get((route, status))
        if child is None:
            child = self._children[route, status] = self._requests.labels(route, f"{status // 100}xx")
        child.inc()
        if status >= 400:
            self._rejections.labels(REFUSALS.get(status, "other")).inc()

    def count_delivery(self, trigger: str, verdict: str) -> None:
        child = self._delivery_children.get((trigger, verdict))
        if child is None:
            child = self._delivery_children[trigger, verdict] = self._deliveries.labels(trigger, verdict)
        child.inc()

    def count_rejected_delivery(self, trigger: str, reason: str) -> None:
        self._rejected_deliveries.labels(trigger, reason if reason in REASONS else "other").inc()

    def render(self, *, lag_s: float, streams: int) -> bytes:
        """What this process counts, in the Prometheus text format."""
        self._lag.set(lag_s)
        self._streams.set(streams)
        return generate_latest(self.registry)

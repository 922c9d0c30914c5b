"""What a gateway process counts of its own requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from gateway.histograms import Counts, Histogram
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

_CLASSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")


class ApiMetrics:
    """The counters of one gateway process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counts("gateway_http_requests", "Requests answered", ["route", "status"])
        self._rejections = Counts("gateway_rejections", "Requests refused", ["reason"])
        self._took = Histogram("gateway_http_request_duration_seconds", "How long answers took", ["route"])
        self._deliveries = Counts("gateway_deliveries", "Webhook deliveries", ["trigger", "verdict"])
        self._rejected_deliveries = Counts(
            "gateway_delivery_rejections", "Deliveries that did not verify", ["trigger", "reason"]
        )
        own = (self._requests, self._rejections, self._took, self._deliveries, self._rejected_deliveries)
        for collector in own:
            registry.register(collector)
        self.streams = Gauge("gateway_event_streams", "Streams of events that are open", registry=registry)

    def count_request(self, route: str, status: int) -> None:
        """Counts an answer; `route` is a path of the routes, never one of a request."""
        self._requests.add((route, _CLASSES[status // 100]))
        if status >= 400:
            self._rejections.add(REFUSALS.get(status, "other"))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """The same, with how long the answer was in the making."""
        self._took.observe(route, seconds)
        if status >= 400:
            self.count_request(route, status)
        else:
            self._requests.add((route, _CLASSES[status // 100]))

    def count_delivery(self, trigger: str, verdict: str) -> None:
        self._deliveries.add((trigger, verdict))

    def count_rejected_delivery(self, trigger: str, reason: str) -> None:
        self._rejected_deliveries.add((trigger, reason if reason in REASONS else "other"))

"""An OTLP receiver in a thread: what a collector would get, span by span."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.observability.threaded import QuietHandler, Threaded
from tests.waiting import until_sync


@dataclass(frozen=True, slots=True)
class Received:
    """One span; ids in hex, `parent` empty for a root."""

    name: str
    trace: str
    span: str
    parent: str
    kind: int
    service: str
    attributes: dict[str, Any]
    events: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    failed: bool


class Collector(Threaded):
    """Listens on a loopback port; `bodies` are the requests as they came, inflated."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        owner = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                owner.bodies.append(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
                self.answer(200)

        super().__init__(Handler)

    def spans(self) -> list[Received]:
        """Every span so far."""
        found = []
        for body in list(self.bodies):
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for resource in request.resource_spans:
                service = _plain(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    found += [_received(span, service) for span in scope.spans]
        return found

    def await_spans(self, enough: Callable[[list[Received]], bool], *, timeout_s: float = 20.0) -> list[Received]:
        """Every span, once there are enough."""
        until_sync(lambda: enough(self.spans()), timeout_s=timeout_s, every_s=0.1)
        return self.spans()


def _received(span: Any, service: str) -> Received:
    return Received(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        service,
        _plain(span.attributes),
        tuple(event.name for event in span.events),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        span.status.code == 2,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}

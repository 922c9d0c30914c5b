"""Spans on their way out: put into a bounded queue, sent by a thread that nobody waits for.

Loaded by name, where there is an endpoint to send to: the SDK and what it sends with are 5 MB of a process's memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Protocol

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from gateway.tracing.context import TraceContext
from gateway.tracing.spans import LINKS_MOST, Attributes, span_context

log = structlog.get_logger(__name__)

STOP_S = 0.15
"""What a process that stops gives to the last spans; what is not sent by then is lost."""

TELL_EVERY_S = 60.0


class Sink(Protocol):
    """Where finished spans go: a span processor of the SDK."""

    def on_end(self, span: ReadableSpan) -> None: ...

    def shutdown(self) -> None: ...


class ExportedSpans:
    """Implements `Spans` by the SDK: hands them to a sink, which must not block."""

    def __init__(self, sink: Sink, resource: Resource, *, version: str) -> None:
        self._sink = sink
        self._resource = resource
        self._scope = InstrumentationScope("event-gateway", version)

    def add(
        self,
        name: str,
        own: TraceContext,
        *,
        began_ns: int,
        ended_ns: int,
        parent: TraceContext | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        events: Sequence[tuple[str, int, Attributes]] = (),
        links: Sequence[TraceContext] = (),
        error: str = "",
    ) -> None:
        """As `Spans` has it."""
        facts = dict(attributes or {})
        if error:
            facts["error.type"] = error
        self._sink.on_end(
            ReadableSpan(
                name,
                context=span_context(own, remote=False),
                parent=span_context(parent, remote=True) if parent else None,
                resource=self._resource,
                attributes=facts,
                events=[Event(event, dict(more), at_ns) for event, at_ns, more in events],
                links=[Link(span_context(link, remote=True)) for link in links[:LINKS_MOST]],
                kind=kind,
                status=Status(StatusCode.ERROR if error else StatusCode.UNSET),
                start_time=began_ns,
                end_time=max(began_ns, ended_ns),
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        """As `Spans` has it."""
        stopping = threading.Thread(target=self._sink.shutdown, name="traces-stop", daemon=True)
        stopping.start()
        stopping.join(STOP_S)


def open_spans(endpoint: str, facts: Mapping[str, str], *, version: str) -> ExportedSpans:
    """Spans that go to an endpoint, with what is said of the process that they are from.

    The SDK reads OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME besides, which win.
    """
    return ExportedSpans(exporting(endpoint), Resource.create(dict(facts)), version=version)


def exporting(endpoint: str) -> BatchSpanProcessor:
    """A sink that sends to an OTLP endpoint (HTTP, protobuf), batch by batch; a full queue drops, and never waits."""
    tell_quietly()
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))


def tell_quietly() -> None:
    """Has the exporter's complaints told once a minute, in our own words: its own may quote a URL or a header."""
    library = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Quiet) for handler in library.handlers):
        library.addHandler(_Quiet())
        library.propagate = False


class _Quiet(logging.Handler):
    """Turns any number of complaints into a line a minute."""

    _told_s = -TELL_EVERY_S

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and monotonic() - self._told_s >= TELL_EVERY_S:
            self._told_s = monotonic()
            log.warning("traces are not delivered", mend="look at OTEL_EXPORTER_OTLP_ENDPOINT and what listens there")

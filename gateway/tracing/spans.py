"""Spans, made whole: what one is made of, and what takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.util.types import AttributeValue

from gateway.tracing.context import TraceContext

Attributes = Mapping[str, AttributeValue]

LINKS_MOST = 128


class Spans(Protocol):
    """Makes spans and hands them on; never blocks."""

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
        """A span that is over; times in Unix ns. `error`: what kind of thing went wrong, never what it said."""

    def close(self) -> None:
        """Sends what is left, and returns within 0.2 s whatever becomes of it."""


def span_context(context: TraceContext, *, remote: bool) -> SpanContext:
    """The same as OpenTelemetry has it."""
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(context.trace_id, context.span_id, is_remote=remote, trace_flags=flags)

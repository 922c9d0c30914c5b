"""Tracing by OpenTelemetry: off without an endpoint, and then nothing of it is made or asked.

Spans are made whole, at their end, of what the code around them knows anyway. Until then a trace costs an id, and only
where it is sampled: a job whose trace is not sampled costs one look at a flag.
"""

from __future__ import annotations

from gateway.tracing.context import TraceContext
from gateway.tracing.sampling import Sampler
from gateway.tracing.spans import Spans
from gateway.tracing.tracing import Tracing, check_tracing, open_tracing

__all__ = ["Sampler", "Spans", "TraceContext", "Tracing", "check_tracing", "open_tracing"]

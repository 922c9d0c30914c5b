"""One process's tracing: who decides what is sampled, who makes ids, where spans go."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.errors import ConfigError
from gateway.limits import Rate
from gateway.tracing.context import TraceContext
from gateway.tracing.sampling import Sampler
from gateway.tracing.spans import Spans

ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_EXPORT = "gateway.tracing.export"


@dataclass(slots=True)
class Tracing:
    """Begins traces, or goes on with them. `now_ns` is Unix time."""

    spans: Spans
    sampler: Sampler
    now_ns: Callable[[], int] = time.time_ns
    rng: random.Random = field(default_factory=random.Random)

    def enter(self, parent: TraceContext | None) -> TraceContext:
        """A first span of ours, in a trace from outside or in one of its own."""
        trace_id = parent.trace_id if parent is not None else self.rng.getrandbits(128) or 1
        return TraceContext(trace_id, self._span_id(), self.sampler.samples(trace_id, parent))

    def below(self, parent: TraceContext) -> TraceContext:
        """A span in the same trace, sampled as its parent is."""
        return TraceContext(parent.trace_id, self._span_id(), parent.sampled)

    def apart(self) -> TraceContext:
        """A span of a trace of its own, sampled: for what belongs to several traces, and links to them."""
        return TraceContext(self.rng.getrandbits(128) or 1, self._span_id(), sampled=True)

    def close(self) -> None:
        """Ends it, within 0.2 s."""
        self.spans.close()

    def _span_id(self) -> int:
        return self.rng.getrandbits(64) or 1


def open_tracing(environ: Mapping[str, str], *, role: str, version: str, outside: Rate) -> Tracing | None:
    """The tracing that the standard `OTEL_…` variables ask for; None where they name no endpoint, or switch it off.

    Raises ConfigError for what is not supported.
    """
    endpoint = _endpoint(environ)
    if endpoint is None:
        return None
    sampler = Sampler.of(environ, outside, time.monotonic)
    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": f"event-gateway-{role}"}
    facts = {"service.version": version, "gateway.role": role} | named
    spans: Spans = importlib.import_module(_EXPORT).open_spans(endpoint, facts, version=version)
    return Tracing(spans, sampler, rng=random.Random())  # noqa: S311


def check_tracing(environ: Mapping[str, str], *, outside: Rate) -> None:
    """Raises ConfigError where `open_tracing` would."""
    if _endpoint(environ) is not None:
        Sampler.of(environ, outside, time.monotonic)


def _endpoint(environ: Mapping[str, str]) -> str | None:
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "none":
        return None
    whole, base = environ.get(TRACES_ENDPOINT, "").strip(), environ.get(ENDPOINT, "").strip()
    if not (whole or base):
        return None
    for name in PROTOCOLS:
        if (protocol := environ.get(name, "").strip()) and protocol != _PROTOCOL:
            raise ConfigError(f"environment: {name}", f"{protocol[:64]!r} is not supported; set {_PROTOCOL}, port 4318")
    endpoint = whole or f"{base.rstrip('/')}/v1/traces"
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"environment: {TRACES_ENDPOINT if whole else ENDPOINT}", "not an http:// or https:// URL")
    return endpoint

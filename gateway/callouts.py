"""Call-outs, counted: how many each target made, how they ended, how long they took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import msgspec
from opentelemetry.trace import SpanKind
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.errors import EgressDenied, HttpError
from gateway.executor import HttpClient, HttpResponse
from gateway.histograms import Counts, Histogram
from gateway.tracing import TraceContext, Tracing


class CallOuts(Collector):
    """Counts what goes through the clients that it gives out."""

    def __init__(self, tracing: Tracing | None = None) -> None:
        self._tracing = tracing
        self._clients: dict[str, CountedClient] = {}
        self._counts = Counts("gateway_callouts", "Requests sent out, by how they ended", ["target", "result"])
        self._durations = Histogram("gateway_callout_duration_seconds", "How long requests sent out took", ["target"])

    def client(self, http: HttpClient, target: str, trace: TraceContext | None = None) -> HttpClient:
        """The client for one attempt of a target; `trace` is the attempt's place, where it is traced."""
        counted = self._clients.get(target)
        if counted is None or counted.http is not http:
            counted = self._clients[target] = CountedClient(http, target, self)
        if trace is None or self._tracing is None:
            return counted
        return TracedClient(counted, target, self._tracing, trace)

    def ended(self, target: str, result: str, seconds: float) -> None:
        """A request ended; `result` is a class of statuses, or the kind of an error."""
        self._counts.add((target, result))
        self._durations.observe(target, seconds)

    def collect(self) -> Iterator[Metric]:
        yield from self._counts.collect()
        yield from self._durations.collect()


class CountedClient(msgspec.Struct):
    """Implements `HttpClient` by another one."""

    http: HttpClient
    target: str
    callouts: CallOuts

    async def request(self, method: str, url: str, **options: Any) -> HttpResponse:
        """As the other client has it."""
        began_s, result = perf_counter(), "cancelled"
        try:
            response = await self.http.request(method, url, **options)
            result = f"{response.status // 100}xx"
            return response
        except EgressDenied:
            result = "egress_denied"
            raise
        except HttpError as error:
            result = error.kind
            raise
        finally:
            self.callouts.ended(self.target, result, perf_counter() - began_s)


@dataclass(slots=True)
class TracedClient:
    """Implements `HttpClient` by another one: each request is a span, and its receiver's span goes below that."""

    http: HttpClient
    target: str
    tracing: Tracing
    parent: TraceContext

    async def request(self, method: str, url: str, **options: Any) -> HttpResponse:
        """As the other client has it."""
        own, began_ns = self.tracing.below(self.parent), self.tracing.now_ns()
        headers = [pair for pair in options.pop("headers", ()) if pair[0].lower() != "traceparent"]
        facts: dict[str, str | int] = {"http.request.method": method, "gateway.target": self.target, **_server(url)}
        error = "cancelled"
        try:
            response = await self.http.request(method, url, headers=[*headers, ("traceparent", str(own))], **options)
            facts["http.response.status_code"] = response.status
            error = str(response.status) if response.status >= 400 else ""
            return response
        except EgressDenied:
            error = "egress_denied"
            raise
        except HttpError as failure:
            error = failure.kind
            raise
        finally:
            self.tracing.spans.add(
                method,
                own,
                parent=self.parent,
                kind=SpanKind.CLIENT,
                began_ns=began_ns,
                ended_ns=self.tracing.now_ns(),
                attributes=facts,
                error=error,
            )


def _server(url: str) -> dict[str, str | int]:
    """Host and port; the rest of a URL may hold secrets."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return {}
    return {"server.address": parts.hostname or "", "server.port": port}

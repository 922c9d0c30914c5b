"""Call-outs, counted: how many each target made, how they ended, how long they took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.errors import EgressDenied, HttpError
from gateway.executor import HttpClient, HttpResponse
from gateway.histograms import Counts, Histogram


class CallOuts(Collector):
    """Counts what goes through the clients that it gives out."""

    def __init__(self) -> None:
        self._counts = Counts("gateway_callouts", "Requests sent out, by how they ended", ["target", "result"])
        self._durations = Histogram("gateway_callout_duration_seconds", "How long requests sent out took", ["target"])

    def client(self, http: HttpClient, target: str) -> HttpClient:
        """The client for one attempt of a target."""
        return CountedClient(http, target, self)

    def ended(self, target: str, result: str, seconds: float) -> None:
        """A request ended; `result` is a class of statuses, or the kind of an error."""
        self._counts.add((target, result))
        self._durations.observe(target, seconds)

    def collect(self) -> Iterator[Metric]:
        yield from self._counts.collect()
        yield from self._durations.collect()


@dataclass(slots=True)
class CountedClient:
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

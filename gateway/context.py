"""What a function that asks for it learns of its attempt, and tells of itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from opentelemetry import trace

from gateway.errors import GatewayError
from gateway.executor import HttpClient, Job, Payload


class Context:
    """The attempt that a function runs in; every method may be called from any thread.

    `job` and `payload` as in an `Attempt`, `attempt` its number from 1, `deadline` on `time.monotonic`'s clock, `log` a
    logger that says which job it speaks of, `state` what the lifespans yielded.
    """

    __slots__ = ("_beat", "_cancelled", "_http", "_report", "attempt", "deadline", "job", "log", "payload", "state")

    def __init__(
        self,
        job: Job,
        payload: Payload,
        *,
        attempt: int,
        deadline: float,
        log: structlog.stdlib.BoundLogger,
        state: Mapping[str, Any],
        report: Callable[[Any], None],
        beat: Callable[[], None],
        cancelled: Callable[[], bool],
        http: HttpClient | None,
    ) -> None:
        self.job = job
        self.payload = payload
        self.attempt = attempt
        self.deadline = deadline
        self.log = log
        self.state = state
        self._report = report
        self._beat = beat
        self._cancelled = cancelled
        self._http = http

    @property
    def number(self) -> int:
        """The attempt's number, from 1, under the name that it has in an `Attempt`."""
        return self.attempt

    @property
    def cancelled(self) -> bool:
        """Whether the attempt is over for the gateway: cancelled, out of time, or released by a shutdown.

        A function in a thread cannot be stopped from outside: a long one should look at this and return.
        """
        return self._cancelled()

    @property
    def http(self) -> HttpClient:
        """The guarded outgoing client; not there in a process of its own."""
        if self._http is None:
            raise GatewayError("a function in a process of its own has no http client; make one in a lifespan")
        return self._http

    @property
    def span(self) -> trace.Span:
        """The span of the attempt, one that records nothing where tracing is off."""
        return trace.get_current_span()

    def remaining_s(self) -> float:
        """Seconds until the deadline, never below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def progress(self, value: Any) -> None:
        """Shows how far the attempt is (any JSON value of at most 1 KiB) in the job's record; it is a heartbeat too."""
        self._report(value)
        self._beat()

    def heartbeat(self) -> None:
        """Says that the attempt is alive: one whose target sets `heartbeat` is ended after so long without."""
        self._beat()

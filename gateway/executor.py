"""What an executor is, and what it gets and gives: the contract of the plugins that run jobs."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
import orjson
import structlog
from opentelemetry import trace

from gateway.jobs import JobRequest
from gateway.signing import SigningKey

ENDING_S = 5.0
"""How long an attempt that is cancelled may take to end, unless its executor says otherwise."""

C = TypeVar("C", bound=msgspec.Struct)
T = TypeVar("T")


class Job(msgspec.Struct, frozen=True, gc=False):
    """The facts of the job that an attempt runs; `created_ms` in Unix milliseconds of the server's clock."""

    job_id: str
    target: str
    lane: str
    key: str
    max_attempts: int
    created_ms: int
    tags: tuple[str, ...]
    traceparent: str
    request: JobRequest | None = None


class Payload:
    """The payload: its bytes exactly as they were submitted, and the value, parsed when first asked for."""

    __slots__ = ("_value", "raw")
    _UNPARSED: ClassVar[object] = object()

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._value: Any = Payload._UNPARSED

    @property
    def value(self) -> Any:
        """The parsed JSON value; integers beyond 64 bits are only exact in `raw`."""
        if self._value is Payload._UNPARSED:
            self._value = orjson.loads(self.raw)
        return self._value


class Result(msgspec.Struct, frozen=True):
    """A success: `value` is any JSON value (kept as the job's result), `meta` facts for the attempt's log."""

    value: Any = None
    meta: dict[str, Any] = {}


class Deferred(msgspec.Struct, frozen=True):
    """The work goes on elsewhere: the job stays running, without a slot, until `POST /jobs/{id}/complete` or `/fail`
    with the attempt's `completion_token`, or until `within_s` seconds have passed; `/heartbeat` begins those anew."""

    within_s: float


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What an outgoing request brought back: at most `max_body` bytes of body, the rest dropped (`truncated`)."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        return next((value for key, value in self.headers if key == name), None)


class HttpClient(Protocol):
    """The guarded outgoing client: no redirects, no inflating, only allowed addresses, bounded in time and size."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        max_body: int = 65536,
        tls: ssl.SSLContext | None = None,
    ) -> HttpResponse:
        """One request; raises EgressDenied (never to be retried) or HttpError with a named `kind`.

        `tls` instead of the client's own trust: for an authority of one's own, or a certificate to show.
        """


def _nobody(deadline: float) -> None:
    """Minds no deadline that moves."""


class Attempt(msgspec.Struct, Generic[C]):
    """One run of a job, as its executor sees it.

    `deadline` is on the event loop's clock, which is `time.monotonic`; the runner cancels `execute` there, so an
    executor only needs it to pass a timeout on, and `moved` tells the runner of a later one. `cancelled` is set when
    the client cancels the job, just before `execute` is cancelled.
    """

    job: Job
    payload: Payload
    config: C
    number: int
    token: str
    deadline: float
    log: structlog.stdlib.BoundLogger
    http: HttpClient
    cancelled: asyncio.Event
    report: Callable[[Any], None]
    signing_keys: tuple[SigningKey, ...] = ()
    completion_token: str = ""
    moved: Callable[[float], None] = _nobody

    @property
    def span(self) -> trace.Span:
        """The attempt's span, which is the current one where `execute` runs; one that records nothing where the job is
        not traced."""
        return trace.get_current_span()

    def remaining_s(self) -> float:
        """Seconds until the deadline, never below 0; may be called from any thread."""
        return max(0.0, self.deadline - time.monotonic())

    async def untimed(self, wait: Awaitable[T]) -> T:
        """What is awaited before the work begins, such as a free place to run in: the attempt's time stands still."""
        began_s = time.monotonic()
        self.moved(math.inf)
        try:
            return await wait
        finally:
            self.deadline += time.monotonic() - began_s
            self.moved(self.deadline)

    def progress(self, value: Any) -> None:
        """Shows how far the attempt is (any small JSON value) in the job's record; the latest value wins."""
        self.report(value)


class Executor(ABC, Generic[C]):
    """Runs the jobs of the targets that name it.

    One instance per process serves all of its targets. `execute` may be called many times at once. It returns
    a `Result`, raises `Retry` or `Fatal`, or anything else, which counts as a retry; it lets `CancelledError`
    pass and leaves nothing running behind when it does.
    """

    name: ClassVar[str]
    Config: ClassVar[type[msgspec.Struct]]
    has_flow: ClassVar[bool] = False
    """Do jobs of each target wait in a flow of their own even without limits, so that the target can be paused?"""

    has_breaker: ClassVar[bool] = False
    """Have its targets a circuit breaker unless they say otherwise?"""

    defers: ClassVar[bool] = False
    """May its attempts end as Deferred? Then they have a `completion_token`."""

    remote: ClassVar[bool] = False
    """May targets be defined over the API? Only if no config can do harm on the machine that runs them."""

    def describe(self, config: C) -> dict[str, Any]:
        """What the API shows of a target's config: JSON values, and nothing secret."""
        return {}

    def code_name(self, config: C) -> str:
        """What errors call the code that a target with this config runs, such as `shop:resize`; empty: the target."""
        return ""

    def check_request(self, config: C, request: JobRequest) -> None:
        """Raises ValueError (FieldFault: with the field) unless a job of such a target may set this of its request."""
        raise ValueError(
            f"targets of the executor {self.name!r} take no headers, method, path or query from their jobs"
        )

    def check(self, config: C) -> None:
        """Raises ValueError if a target with this config cannot run here (a module that does not import)."""
        return None

    async def start(self) -> None:
        """Called once in the event loop before the first attempt."""
        return None

    @abstractmethod
    async def execute(self, attempt: Attempt[C]) -> Result | Deferred:
        """Runs one attempt."""

    def ending_s(self, config: C) -> float:
        """How long an attempt that is cancelled may take to end before it is cancelled again."""
        return ENDING_S

    def trouble(self) -> str:
        """What keeps attempts from running as they should, for `/readyz` of a dispatcher; empty: nothing."""
        return ""

    async def aclose(self) -> None:
        """Called once after the last attempt."""
        return None

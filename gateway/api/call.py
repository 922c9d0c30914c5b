"""One request on its way through: what it says, who sent it, and how long the store may still take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import msgspec
from starlette.types import Receive
from starlette.types import Scope as AsgiScope

from gateway.api.auth import ANYONE, Authoriser, Client
from gateway.api.bodies import Arriving, BodyLimits, read_body
from gateway.api.gate import StoreGate, in_time
from gateway.api.headers import Headers
from gateway.api.journal import Journal
from gateway.api.meters import Meters
from gateway.api.metrics import ApiMetrics
from gateway.api.rejections import Rejections
from gateway.api.scope import WHOLE
from gateway.api.sources import Triggers
from gateway.api.totals import Totals
from gateway.api.traces import RequestTrace
from gateway.executor import HttpClient
from gateway.lag import LoopLag
from gateway.registrations import Registrations
from gateway.registry import Registry
from gateway.settings import Settings
from gateway.store import Store
from gateway.store.events import EventFeed
from gateway.store.waits import Waits
from gateway.submission import Catalog
from gateway.tracing import Tracing
from gateway.transitions import Transitions
from gateway.vitals import Vitals

T = TypeVar("T")

STORE_S = 1.7
"""What all of a request's calls to the store may take together: the client has its 503 within 2 s."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """All that the routes work with; `clock` gives Unix seconds."""

    settings: Settings
    store: Store
    registry: Registry
    registrations: Registrations
    http: HttpClient
    catalog: Catalog
    waits: Waits
    events: EventFeed
    gate: StoreGate
    authoriser: Authoriser
    metrics: ApiMetrics
    rejections: Rejections
    triggers: Triggers
    meters: Meters
    journal: Journal
    arriving: Arriving
    lag: LoopLag
    vitals: Vitals
    transitions: Transitions
    tracing: Tracing | None
    totals: Totals
    clock: Callable[[], float]
    base_url: str
    """`base_url` of the settings, made once."""


class Call(msgspec.Struct):
    """A request as its route sees it."""

    gateway: Gateway
    scope: AsgiScope
    receive: Receive
    headers: Headers
    trace: RequestTrace | None = None
    began_s: float = 0.0
    """By `perf_counter`."""
    client: Client = ANYONE
    store_s: float = STORE_S

    def path_value(self, name: str) -> str:
        """A part of the path, by its name in the route."""
        return str(self.scope["path_params"][name])

    @property
    def limits(self) -> BodyLimits:
        """What the configuration says of bodies."""
        own = self.gateway.settings.gateway
        return BodyLimits(own.max_body, float(own.body_timeout))

    async def body(self, limits: BodyLimits | None = None) -> bytes:
        """The whole body, within the configured limits where none are given."""
        return await read_body(
            self.receive,
            self.headers,
            limits or self.limits,
            arriving=self.gateway.arriving,
            whole=self.scope.get(WHOLE, False),
        )

    @property
    def until_s(self) -> float:
        """Until when, by `monotonic`, the store may take; for calls that keep to it by themselves, without a timer."""
        # and not by the loop, whose clock is the same: asking for the loop is a call of the system each time
        return monotonic() + (self.store_s if self.store_s > 0 else 0.0)

    async def in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        """What the store's call brings, in the time that is left; StoreUnavailable after it."""
        began_s = monotonic()
        try:
            return await in_time(work, max(0.0, self.store_s))
        finally:
            self.store_s -= monotonic() - began_s

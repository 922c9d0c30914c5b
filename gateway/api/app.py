"""The application: routes over a store and a registry, and what runs beside them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

import gateway as package
from gateway.api.auth import Authoriser
from gateway.api.bodies import Arriving
from gateway.api.call import Call, Gateway
from gateway.api.endpoint import Endpoint
from gateway.api.front import Front
from gateway.api.gate import StoreGate
from gateway.api.guards import HeadGuard
from gateway.api.journal import Journal
from gateway.api.meters import Meters
from gateway.api.metrics import ApiMetrics
from gateway.api.openapi import describe_api
from gateway.api.operations import OPERATIONS, Operation
from gateway.api.problems import problem_reply
from gateway.api.rejections import Rejections
from gateway.api.reply import Reply, json_reply, send_reply
from gateway.api.scope import ON_DRAIN
from gateway.api.sources import Triggers
from gateway.api.totals import Totals
from gateway.egress.addresses import parse_allow
from gateway.egress.late import LateClient
from gateway.errors import NotFound, StoreError, StoreMismatch
from gateway.executor import HttpClient
from gateway.lag import LoopLag
from gateway.registrations import Registrations
from gateway.registry import Registry
from gateway.settings import Settings
from gateway.store import Store
from gateway.store.events import EventFeed
from gateway.store.waits import Waits
from gateway.submission import Catalog
from gateway.tracing import open_tracing
from gateway.transitions import Transitions
from gateway.vitals import Vitals, process_registry

NO_ROUTE = "none"


def create_app(
    settings: Settings,
    store: Store,
    registry: Registry,
    *,
    http: HttpClient | None = None,
    clock: Callable[[], float] = time.time,
    close_store: bool = False,
    workers_folder: Path | None = None,
) -> Starlette:
    """The gateway as an ASGI application; `clock` gives Unix seconds, `http` sends the tests of targets instead of
    the guarded client.

    The store may be unconfigured and Redis away: routes answer 503 until it is there. While the application's
    lifespan runs it is tried for in the background, and closed at the end if `close_store`. `workers_folder` is where
    processes that share a port tell one another what they count. Data that does not fit
    (StoreMismatch) ends the start.
    """
    store.expect_flows(registry.flows)
    store.expect_notices(registry.notices)
    lag, vitals = LoopLag(), Vitals("gateway", package.__version__)
    own_metrics = process_registry(lag, vitals, store.client.calls)
    guarded = LateClient(settings.egress.allow)
    gateway = Gateway(
        settings=settings,
        store=store,
        registry=registry,
        registrations=Registrations(store, registry, rng=random.Random()),  # noqa: S311 (jitter)
        http=http or guarded,
        catalog=_catalog(settings, store, registry),
        waits=Waits(store),
        events=EventFeed(store),
        gate=StoreGate(store),
        authoriser=Authoriser(settings.gateway, store),
        metrics=ApiMetrics(own_metrics),
        rejections=Rejections(),
        triggers=Triggers(registry, store),
        meters=Meters(),
        journal=Journal(store),
        arriving=Arriving(settings.gateway.max_arriving),
        lag=lag,
        vitals=vitals,
        transitions=Transitions(wanted=settings.gateway.logs_transitions),
        tracing=open_tracing(
            settings.otel, role="gateway", version=package.__version__, outside=settings.gateway.traces_from_outside
        ),
        totals=Totals(own_metrics, workers_folder),
        clock=clock,
        base_url=settings.gateway.base_url,
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        try:
            async with guarded, _running(gateway):
                yield {ON_DRAIN: lambda: _release(gateway)}
        finally:
            if close_store:
                await store.aclose()

    own = settings.gateway
    app = Front(
        list(_endpoints(gateway)),
        guard=HeadGuard(max_headers=own.max_headers, max_header_bytes=own.max_header_bytes),
        on_refusal=lambda status: gateway.metrics.count_request(NO_ROUTE, status),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.router.default = _NotFound(gateway)
    return app


@contextlib.asynccontextmanager
async def _running(gateway: Gateway) -> AsyncIterator[None]:
    """What runs beside the requests: the way to Redis, and the loop's lag."""
    gateway.metrics.streams.set_function(lambda: gateway.events.followers)
    running = (gateway.lag, gateway.registrations, gateway.totals)
    tasks = [asyncio.create_task(each.run()) for each in running]
    try:
        try:
            await gateway.gate.require()
        except StoreMismatch:
            raise
        except StoreError:
            tasks.append(asyncio.create_task(gateway.gate.run()))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.journal.aclose()
        await gateway.waits.aclose()
        await gateway.events.aclose()
        await gateway.gate.aclose()
        gateway.transitions.flush()
        if gateway.tracing is not None:
            await asyncio.to_thread(gateway.tracing.close)


def _release(gateway: Gateway) -> None:
    """Lets everyone go who waits or follows: the process stops."""
    gateway.waits.release()
    gateway.events.release()


def _catalog(settings: Settings, store: Store, registry: Registry) -> Catalog:
    return Catalog(
        targets=registry.targets,
        lanes=settings.lanes.order,
        default_lane=settings.lanes.default,
        window_ms=int(settings.gateway.idempotency_window * 1000),
        new_id=store.new_id,
        url_target=registry.url_target if settings.gateway.url_jobs else None,
        allowed=parse_allow(settings.egress.allow),
    )


def _endpoints(gateway: Gateway) -> Iterator[Endpoint]:
    operations = (*OPERATIONS, _openapi_operation(gateway.settings.lanes.order))
    for path in dict.fromkeys(operation.path for operation in operations):
        yield Endpoint(gateway, path, [each for each in operations if each.path == path])


def _openapi_operation(lanes: Sequence[str]) -> Operation:
    @functools.cache  # made when it is first asked for: few processes ever are
    def description() -> Reply:
        return json_reply(describe_api((*OPERATIONS, own), version=package.__version__, lanes=lanes))

    async def openapi(call: Call) -> Reply:
        return description()

    own = Operation("GET", "/openapi.json", openapi, "read", "This description", {200: None}, store=False)
    return own


class _NotFound:
    """Answers what no route matches."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reply = problem_reply(NotFound("there is nothing at this path; GET /openapi.json names what there is"))
        self._gateway.metrics.count_request(NO_ROUTE, reply.status)
        await send_reply(reply, send)

"""A dispatcher's own small HTTP side: /metrics, /livez, /readyz."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.errors import StoreError
from gateway.figures import read_figures
from gateway.lag import LoopLag
from gateway.liveness import liveness
from gateway.store import Store
from gateway.store.readiness import beat
from gateway.vitals import Vitals

PROBE_S = 1.0


def health_app(
    store: Store,
    metrics: CollectorRegistry,
    *,
    vitals: Vitals,
    lag: LoopLag,
    idle_s: Callable[[], float],
    stuck_after_s: float,
    targets: Sequence[str],
    trouble: Callable[[], str] = str,
) -> Starlette:
    """The three routes. `/livez` is red while the claim loops do not turn (`idle_s`: for how long), `/readyz` while
    Redis takes no outcomes, nobody takes work that is due, or executors are in `trouble`. `targets`: whose state
    `/metrics` tells."""

    async def livez(request: Request) -> Response:
        status, answer = liveness(lag, idle_s)
        return JSONResponse(answer, status)

    async def readyz(request: Request) -> Response:
        try:
            async with asyncio.timeout(PROBE_S):
                reason = (await beat(store, "", stuck_after_s=stuck_after_s)).stuck(stuck_after_s)
        except (StoreError, TimeoutError) as error:
            reason = str(error) or "Redis does not answer"
        if reason := reason or trouble():
            return JSONResponse({"status": "unready", "reason": reason}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def all_metrics(request: Request) -> Response:
        try:
            async with asyncio.timeout(PROBE_S):
                figures = await read_figures(store, targets)
            status = 200
        except (StoreError, TimeoutError):
            figures, status = b"", 503
        vitals.scraped(redis_up=status == 200)
        return Response(figures + generate_latest(metrics), status, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return Starlette(routes=[Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", all_metrics)])


class QuietServer(uvicorn.Server):
    """A uvicorn server that leaves the signals to the process it runs in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def health_server(app: Starlette) -> QuietServer:
    """A server for the routes; run it with `serve(sockets)`, end it by setting `should_exit`."""
    return QuietServer(uvicorn.Config(app, access_log=False, log_config=None, lifespan="off"))

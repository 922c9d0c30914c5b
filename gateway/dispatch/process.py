"""One dispatcher process, from its settings to its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Callable

import structlog
from starlette.applications import Starlette

import gateway as package
from gateway.callouts import CallOuts
from gateway.collector import calm_collector
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.health import health_app, health_server
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.stopping import Stop
from gateway.egress.late import LateClient
from gateway.errors import ConfigError, StoreUnavailable
from gateway.jobs import CALLBACK_TARGET, URL_TARGET
from gateway.lag import LoopLag
from gateway.opening import make_store
from gateway.pauses import Pauses
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import Settings
from gateway.signers import Signers
from gateway.store import Store
from gateway.supervisor import stop_signals
from gateway.tracing import open_tracing
from gateway.tracing.attempts import AttemptSpans
from gateway.vitals import Vitals, process_registry

log = structlog.get_logger(__name__)


def _ignore() -> None:
    """Nobody waits for the end of the work."""


async def run_dispatcher(settings: Settings, *, redis_url: str, over: Callable[[], None] = _ignore) -> None:
    """Runs a dispatcher until TERM, INT or HUP; a second signal stops at once. `over` is called once its work is done,
    and only what it has opened is still to be closed, by code that may not be ours.

    Waits for Redis if it is away. Raises ConfigError or StoreMismatch if it can never run.
    """
    registry = Registry.build(settings)  # what is wrong with the configuration is said before Redis is waited for
    stop = Stop()
    loop = asyncio.get_running_loop()
    for sig in stop_signals():
        loop.add_signal_handler(sig, stop.ask)
    store = await _open_store(settings, redis_url, registry, stop)
    if store is None:
        return
    try:
        await _run(settings, store, registry, stop=stop, redis_url=redis_url, over=over)
    finally:
        await store.aclose()


async def _open_store(settings: Settings, redis_url: str, registry: Registry, stop: Stop) -> Store | None:
    store = make_store(settings, redis_url, flows=registry.flows)
    store.expect_notices(registry.notices)
    pauses = Pauses(0.1, 2.0)
    while not stop.drain.is_set():
        try:
            await store.configure()
            for remark in store.remarks:
                log.warning("Redis is not as it should be", detail=remark.text)
            return store
        except StoreUnavailable as error:
            log.warning("waiting for Redis", error=str(error))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.drain.wait(), pauses.next_s())
    await store.aclose()
    return None


async def _run(
    settings: Settings, store: Store, registry: Registry, *, stop: Stop, redis_url: str, over: Callable[[], None]
) -> None:
    gateway = settings.gateway
    lag, vitals = LoopLag(), Vitals("dispatcher", package.__version__)
    metrics = process_registry(lag, vitals, store.client.calls)
    async with LateClient(settings.egress.allow) as http:
        if any(target.executor.has_flow for target in registry.targets.values()):
            await http.open()  # it calls out for certain
        tracing = open_tracing(
            settings.otel, role="dispatcher", version=package.__version__, outside=gateway.traces_from_outside
        )
        runner = Runner(
            registry,
            http,
            signing_keys=Signers(gateway, store),
            callouts=CallOuts(tracing),
            no_target_after_s=float(gateway.no_target_after),
            traces=AttemptSpans(tracing) if tracing is not None else None,
        )
        metrics.register(runner.callouts)
        dispatcher = Dispatcher(
            settings,
            store,
            registry=registry,
            runner=runner,
            redis_url=redis_url,
            metrics=DispatchMetrics(metrics),
            wall_ms=lambda: time.time_ns() // 1_000_000,
            rng=random.Random(),  # noqa: S311 (jitter)
        )
        listener = _listener(gateway.dispatcher_host, gateway.dispatcher_port)
        try:
            await registry.start()
        except BaseException:
            listener.close()
            raise
        calm_collector()
        app = health_app(
            store,
            metrics,
            vitals=vitals,
            lag=lag,
            idle_s=dispatcher.idle_s,
            stuck_after_s=float(gateway.stuck_after),
            targets=[*registry.targets, CALLBACK_TARGET, URL_TARGET],
            trouble=registry.trouble,
        )
        try:
            async with _telling(app, listener, lag):
                try:
                    await dispatcher.run(stop)
                finally:
                    over()
        finally:
            await registry.aclose()
            if tracing is not None:
                await asyncio.to_thread(tracing.close)


@contextlib.asynccontextmanager
async def _telling(app: Starlette, listener: socket.socket, lag: LoopLag) -> AsyncIterator[None]:
    """Serves the health routes, and measures the loop's lag for them, while the block runs."""
    server = health_server(app)
    measuring = asyncio.create_task(lag.run())
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        measuring.cancel()
        await asyncio.gather(serving, measuring, return_exceptions=True)


def _listener(host: str, port: int) -> socket.socket:
    """A bound socket; where the port is taken (another dispatcher on this machine), any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
        listener = socket.socket(family)
    except OSError as error:
        raise _not_here(host, error) from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        try:
            listener.bind((address[0], 0, *address[2:]))
        except OSError as worse:
            listener.close()
            raise _not_here(host, worse) from worse
        log.warning("the health port is taken; using another", wanted=port, port=_port(listener), error=error.strerror)
    log.info("health and metrics", host=host, port=_port(listener))
    return listener


def _not_here(host: str, error: OSError) -> ConfigError:
    return ConfigError(f"gateway.dispatcher_host: {host}", f"not an address of this machine: {error.strerror}")


def _port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port

"""What a measurement runs on: a server, a namespace of its own, and a dispatcher in this process."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from gateway.callouts import CallOuts
from gateway.cli.interrupts import one_interrupt
from gateway.collector import calm_collector
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.stopping import Stop
from gateway.egress.client import EgressClient
from gateway.jobs import Submission
from gateway.limits import Limits, Rate
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import GatewaySettings, Settings, TargetSettings
from gateway.signers import Signers
from gateway.store import Store
from gateway.store.connection import connect
from gateway.store.embedded import EmbeddedValkey
from gateway.tracing import Tracing
from gateway.tracing.attempts import AttemptSpans
from gateway.transitions import Transitions

NOOP, NOTE, TRUE = "noop", "note", "true"
DOZE, FAIL_ONCE, COUNT = "doze", "fail_once", "count"
NARROW, PACED = "narrow", "paced"
LIMITS = {NARROW: Limits(concurrency=2), PACED: Limits(rate=Rate("10/s"), burst=10)}
"""The targets with limits, whose jobs wait in flows."""


@contextlib.contextmanager
def rig(redis: str | None) -> Iterator[str]:
    """The URL of the server to measure on: the given one, or an embedded one with its defaults (AOF everysec).

    Whatever asks the command to end, what it started ends with it.
    """
    quiet()
    with one_interrupt() as no_more_interrupts, _server(redis) as url:
        try:
            yield url
        finally:
            no_more_interrupts()


@contextlib.contextmanager
def _server(redis: str | None) -> Iterator[str]:
    if redis is not None:
        yield redis
        return
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        embedded = EmbeddedValkey(Path(folder) / "data", temporary=True)
        try:
            yield embedded.start()
        finally:
            embedded.stop()


def quiet() -> None:
    """Leaves all but errors out of the log, which would stand between the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))


def bench_settings() -> Settings:
    """Default settings, with the targets that measurements run."""
    targets = {
        name: TargetSettings(executor="python", config={"callable": f"gateway.cli.bench.tasks:{name}"})
        for name in (NOOP, NOTE, DOZE, FAIL_ONCE, COUNT)
    }
    targets[NARROW] = msgspec.structs.replace(targets[NOTE], limit=LIMITS[NARROW])
    stamp = {"callable": "gateway.cli.bench.tasks:stamp"}
    targets[PACED] = TargetSettings(executor="python", config=stamp, limit=LIMITS[PACED])
    targets[TRUE] = TargetSettings(executor="command", config={"argv": ["true"]})
    return msgspec.structs.replace(Settings(), targets=targets)


@contextlib.asynccontextmanager
async def fresh_store(url: str) -> AsyncIterator[Store]:
    """A store in a namespace that nothing else uses, emptied afterwards."""
    namespace = f"b{secrets.token_hex(3)}"  # as long as "default": it is part of every key
    store = await Store.open(url, namespace=namespace, lanes=bench_settings().lanes.order)
    try:
        yield store
    finally:
        await store.aclose()
        await emptied(url, namespace)


@contextlib.asynccontextmanager
async def flows_store(url: str, settings: Settings) -> AsyncIterator[Store]:
    """A fresh store that knows the flows of the settings' targets."""
    async with fresh_store(url) as store:
        store.expect_flows(Registry.build(settings).flows)
        await store.configure()
        yield store


async def emptied(url: str, namespace: str) -> None:
    """Takes everything of a namespace away."""
    client = connect(url)
    try:
        cursor = 0
        while True:
            cursor, keys = await client.scan(cursor, match=f"gw:{{{namespace}:*", count=10_000)
            if keys:
                await client.unlink(*keys)
            if cursor == 0:
                return
    finally:
        await client.aclose()


@dataclass(frozen=True, slots=True)
class Watching:
    """How a dispatcher is observed; without one, by its metrics, and a log that lets errors through."""

    metrics: DispatchMetrics
    transitions: Transitions
    tracing: Tracing | None = None


@contextlib.asynccontextmanager
async def dispatcher(
    url: str, store: Store, settings: Settings | None = None, *, watching: Watching | None = None, slots: int = 100
) -> AsyncIterator[Dispatcher]:
    """A dispatcher with default settings (or these), leases and metrics on, running in this event loop."""
    settings = settings or msgspec.structs.replace(bench_settings(), gateway=GatewaySettings(slots=slots))
    watching = watching or Watching(DispatchMetrics(CollectorRegistry()), Transitions(wanted=False))
    registry = Registry.build(settings)
    await registry.start()
    calm_collector()
    async with EgressClient(settings.egress.allow) as http:
        it = Dispatcher(
            settings,
            store,
            registry=registry,
            runner=Runner(
                registry,
                http,
                callouts=CallOuts(watching.tracing),
                traces=AttemptSpans(watching.tracing) if watching.tracing is not None else None,
                signing_keys=Signers(settings.gateway, store),
            ),
            redis_url=url,
            metrics=watching.metrics,
            transitions=watching.transitions,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            rng=random.Random(),  # noqa: S311 (jitter)
        )
        stop = Stop()
        running = asyncio.create_task(it.run(stop))
        try:
            yield it
        finally:
            stop.ask()
            await running
            await registry.aclose()


async def fill(store: Store, target: str, payloads: list[bytes], *, delay_ms: int = 0) -> list[str]:
    """Submits a job per payload, 500 in a call: their ids, in order."""
    now_ms = time.time_ns() // 1_000_000
    jobs = [Submission(store.new_id(now_ms), target, payload, delay_ms=delay_ms) for payload in payloads]
    for first in range(0, len(jobs), 500):
        await store.submit(jobs[first : first + 500])
    return [job.job_id for job in jobs]


async def finished(store: Store, jobs: int, *, timeout_s: float = 600.0) -> float:
    """The loop's time when `jobs` jobs are finished, to within 10 ms: asking more often would slow what is measured, as
    would `inspect`, which counts much else."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        while await _finished(store) < jobs:  # noqa: ASYNC110 (nothing tells of it but Redis)
            await asyncio.sleep(0.01)
    return loop.time()


async def _finished(store: Store) -> int:
    return sum([int(await store.client.call("ZCARD", keyspace.done)) for keyspace in store.keyspaces])

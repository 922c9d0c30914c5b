"""What it costs to be seen: a drain with metrics, logs, traces and events on, beside one with all of them off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, generate_latest

import gateway
from gateway.cli.bench.callout import sink
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, Watching, dispatcher, finished, fresh_store
from gateway.dispatch.endings import Settled
from gateway.dispatch.metrics import DispatchMetrics
from gateway.figures import read_figures
from gateway.jobs import Claimed, Options, Submission
from gateway.limits import Rate
from gateway.store import Store
from gateway.store.events import FOLLOW_MS
from gateway.store.scripts import run
from gateway.tracing import TraceContext, Tracing, open_tracing
from gateway.transitions import Transitions

SAMPLED = 100
"""One job in so many is traced."""

SCRAPE_S = 1.0
"""Far more often than Prometheus does by default."""

INFO, ERROR = 20, 40


class Unmeasured(DispatchMetrics):
    """Observes nothing of jobs."""

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """Nothing."""

    def settled(self, ended: Sequence[Settled], now_s: float) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs a second, and what each cost this process in processor time."""

    jobs_s: float
    cpu_us: float


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """All of it off, on, and followed besides, `repetitions` times, there and back; 1 % of the jobs are traced."""
    async with sink() as endpoint:
        ways: list[Callable[[], Awaitable[Drained]]] = [
            lambda: _drain(url, jobs, Watching(Unmeasured(CollectorRegistry()), Transitions(wanted=False))),
            lambda: _drain_watched(url, jobs, endpoint),
            lambda: _drain_watched(url, jobs, endpoint, followed=True),
        ]
        found: list[list[Drained]] = [[] for _ in ways]
        for repetition in range(repetitions):
            for way in (0, 1, 2) if repetition % 2 == 0 else (2, 1, 0):
                found[way].append(await ways[way]())
    off, on, followed = ([each.jobs_s for each in drains] for drains in found)
    cpu_off, cpu_on, cpu_followed = ([each.cpu_us for each in drains] for drains in found)
    return Report(
        f"drain of {jobs:,} no-op Python jobs, observed; the limit is the same unobserved",
        [
            Figure("metrics, logs, traces of 1 %", "jobs/s", tuple(on), tuple(off)),
            Figure("and somebody follows every event", "jobs/s", tuple(followed), tuple(off)),
            Figure("all of it off", "jobs/s", tuple(off)),
            Figure("processor: metrics, logs, traces of 1 %", "us/job", tuple(cpu_on), tuple(cpu_off)),
            Figure("processor: and followed", "us/job", tuple(cpu_followed), tuple(cpu_off)),
        ],
    )


async def _drain_watched(url: str, jobs: int, endpoint: str, *, followed: bool = False) -> Drained:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    tracing = open_tracing(environ, role="dispatcher", version=gateway.__version__, outside=Rate("10/s"))
    assert tracing is not None
    registry = CollectorRegistry()
    try:
        with _logging_to_nowhere():
            watching = Watching(DispatchMetrics(registry), Transitions(), tracing)
            return await _drain(url, jobs, watching, registry, followed=followed)
    finally:
        await asyncio.to_thread(tracing.close)


async def _drain(
    url: str, jobs: int, watching: Watching, registry: CollectorRegistry | None = None, *, followed: bool = False
) -> Drained:
    """A registry is scraped meanwhile, and where they are followed the scripts write events."""
    loop = asyncio.get_running_loop()
    async with fresh_store(url) as store:
        await _fill(store, jobs, watching.tracing)
        if followed:
            await run(store.client, "follow", store.keyspaces[0].prefix, [FOLLOW_MS])
        async with _scraped(store, registry):
            began, cpu_began = loop.time(), time.process_time()
            async with dispatcher(url, store, watching=watching):
                took_s = await finished(store, jobs) - began
                return Drained(jobs / took_s, (time.process_time() - cpu_began) / jobs * 1e6)


async def _fill(store: Store, jobs: int, tracing: Tracing | None) -> None:
    now_ms = time.time_ns() // 1_000_000
    for first in range(0, jobs, 500):
        batch = []
        for number in range(first, min(first + 500, jobs)):
            place = tracing.below(TraceContext(number + 1, 1, sampled=True)) if tracing and not number % SAMPLED else ""
            options = Options(traceparent=str(place))
            batch.append(Submission(store.new_id(now_ms), NOOP, b'{"n":1}', options=options))
        await store.submit(batch)


@contextlib.asynccontextmanager
async def _scraped(store: Store, registry: CollectorRegistry | None) -> AsyncIterator[None]:
    if registry is None:
        yield
        return
    scraping = asyncio.create_task(_scrape(store, registry))
    try:
        yield
    finally:
        scraping.cancel()
        await asyncio.wait([scraping])


async def _scrape(store: Store, registry: CollectorRegistry) -> None:
    while True:
        await read_figures(store, [NOOP])
        generate_latest(registry)
        await asyncio.sleep(SCRAPE_S)


@contextlib.contextmanager
def _logging_to_nowhere() -> Iterator[None]:
    """The log as a dispatcher has it, at its default level."""
    nowhere = open(os.devnull, "w")  # noqa: SIM115
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(INFO),
        logger_factory=structlog.PrintLoggerFactory(nowhere),
    )
    try:
        yield
    finally:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(ERROR))
        nowhere.close()

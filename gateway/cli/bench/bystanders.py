"""A dead host among many targets: what the others notice of it, and what it costs in memory while it hangs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import orjson

from gateway.cli.bench.callout import SECRET, sink
from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import bench_settings, dispatcher, fill, finished, flows_store
from gateway.durations import Duration
from gateway.settings import EgressSettings, GatewaySettings, Settings, TargetSettings
from gateway.store import Store

TARGETS = 50
DEAD_JOBS = 1000
RATE = 200
"""Jobs a second, to the living targets in turn."""

TICK_S = 0.02
MIB = 1 << 20


def bystander_settings(url: str, dead: str) -> Settings:
    """Default settings with 50 targets, of which the last is the dead host; a stop does not wait for what hangs."""
    urls = [*[url] * (TARGETS - 1), dead]
    targets = {
        f"t{number}": TargetSettings(executor="http", config={"url": each, "secret": SECRET})
        for number, each in enumerate(urls)
    }
    return msgspec.structs.replace(
        bench_settings(),
        targets=targets,
        gateway=GatewaySettings(drain=Duration(0)),
        egress=EgressSettings(allow=("127.0.0.1",)),
    )


@contextlib.contextmanager
def dead_host() -> Iterator[str]:
    """The URL of a host that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


async def measure(url: str, *, seconds: float, repetitions: int) -> Report:
    """In turn without and with jobs for the dead host, `repetitions` times."""
    alone: list[float] = []
    beside: list[float] = []
    grown: list[float] = []
    async with sink() as address:
        with dead_host() as dead:
            settings = bystander_settings(address, dead)
            async with _warm(url, settings) as store:
                await _latency_ms(store, 1.0)
            for _ in range(repetitions):
                async with _warm(url, settings) as store:
                    alone.append(await _latency_ms(store, seconds))
                async with _warm(url, settings) as store:
                    gc.collect()
                    before = _resident()
                    await fill(store, f"t{TARGETS - 1}", [b"{}"] * DEAD_JOBS)
                    beside.append(await _latency_ms(store, seconds))
                    grown.append((_resident() - before) / MIB)
    return Report(
        f"{RATE} jobs/s to {TARGETS - 1} targets for {seconds:g} s, and {DEAD_JOBS:,} jobs for one that hangs",
        [
            Figure("submit to request received, p99, beside the dead host", "ms", tuple(beside), tuple(alone)),
            Figure("the same without it", "ms", tuple(alone)),
            Figure("memory grown while it hangs", "MiB", tuple(grown)),
        ],
    )


@contextlib.asynccontextmanager
async def _warm(url: str, settings: Settings) -> AsyncIterator[Store]:
    """A fresh store that knows the targets' flows, and a dispatcher on it."""
    async with flows_store(url, settings) as store, dispatcher(url, store, settings):
        yield store


async def _latency_ms(store: Store, seconds: float) -> float:
    """The 99th percentile from submit to the request's arrival, at a steady rate."""
    loop, rng = asyncio.get_running_loop(), random.Random(1)  # noqa: S311 (which target, no secret)
    began: dict[str, int] = {}
    at, until = loop.time(), loop.time() + seconds
    while at < until:
        for _ in range(round(RATE * TICK_S)):
            began_ns = time.monotonic_ns()
            (job_id,) = await fill(store, f"t{rng.randrange(TARGETS - 1)}", [orjson.dumps({"n": 1})])
            began[job_id] = began_ns
        at += TICK_S
        await asyncio.sleep(max(0.0, at - loop.time()))
    await finished(store, len(began))
    took: list[float] = []
    ids = list(began)
    for first in range(0, len(ids), 100):
        for found in await store.find_many(ids[first : first + 100]):
            if found is not None:
                took.append((int(found.record.result) - began[found.record.job_id]) / 1e6)
    return percentile(took, 0.99)


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

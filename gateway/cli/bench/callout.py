"""Call-outs: how many signed 1 KB requests a second one dispatcher makes as jobs, and how soon one leaves when idle."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator

import msgspec
import orjson
from aiohttp import ClientSession, TCPConnector

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import bench_settings, dispatcher, fill, finished, flows_store
from gateway.limits import Limits
from gateway.settings import EgressSettings, Settings, TargetSettings
from gateway.store import Store

CALL = "call"
PAYLOAD = orjson.dumps({"text": "x" * 1000})
SINK_S = 20.0
IDLE = 200
"""Jobs sent one by one, each once the one before is over."""

SECRET = "whsec_" + "QUJD" * 8


def callout_settings(url: str) -> Settings:
    """Default settings, with one http target at the sink that may take all slots."""
    limit = Limits(concurrency=Settings().gateway.slots)
    target = TargetSettings(executor="http", config={"url": url, "secret": SECRET}, limit=limit)
    return msgspec.structs.replace(
        bench_settings(), targets={CALL: target}, egress=EgressSettings(allow=("127.0.0.1",))
    )


@contextlib.asynccontextmanager
async def sink() -> AsyncIterator[str]:
    """The URL of a sink that runs until the block ends."""
    command = (sys.executable, "-m", "gateway.cli.bench.sink")
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        async with asyncio.timeout(SINK_S):
            port = int(await child.stdout.readline())
        yield f"http://127.0.0.1:{port}/"
    finally:
        assert child.stdin is not None
        child.stdin.close()
        async with asyncio.timeout(SINK_S):
            await child.wait()


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: a bare aiohttp loop, then the dispatcher, `repetitions` times; both with as many at once."""
    bare: list[float] = []
    called: list[float] = []
    soon: list[float] = []
    loop = asyncio.get_running_loop()
    async with sink() as address:
        settings = callout_settings(address)
        for _ in range(repetitions):
            bare.append(jobs / await _bare(address, jobs, at_once=settings.gateway.slots))
            async with flows_store(url, settings) as store:
                await fill(store, CALL, [PAYLOAD] * jobs)
                async with dispatcher(url, store, settings):
                    began = loop.time()
                    called.append(jobs / (await finished(store, jobs) - began))
            async with flows_store(url, settings) as store, dispatcher(url, store, settings):
                soon.append(await _idle(store))
    return Report(
        f"{jobs:,} signed call-outs of 1 KB to a loopback sink, one dispatcher, default settings",
        [
            Figure("dispatcher", "jobs/s", tuple(called), tuple(bare)),
            Figure("bare aiohttp loop, as many at once", "requests/s", tuple(bare)),
            Figure("submit to request received, idle, p50", "ms", tuple(soon)),
        ],
    )


async def _bare(url: str, jobs: int, *, at_once: int) -> float:
    """Seconds that so many requests take without jobs around them."""
    waiting = iter(range(jobs))
    headers = {"content-type": "application/json", "accept-encoding": "identity"}

    async def calls(session: ClientSession) -> None:
        for _ in waiting:
            async with session.post(url, data=PAYLOAD, headers=headers) as response:
                await response.read()

    loop = asyncio.get_running_loop()
    async with ClientSession(connector=TCPConnector(limit=0), trust_env=False) as session:
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(calls(session))
        return loop.time() - began


async def _idle(store: Store) -> float:
    """Milliseconds between a submit and its request's arrival, the median."""
    took: list[float] = []
    for done in range(1, IDLE + 1):
        began_ns = time.monotonic_ns()
        (job_id,) = await fill(store, CALL, [PAYLOAD])
        await finished(store, done)
        arrived_ns = int((await store.find(job_id)).record.result)
        took.append((arrived_ns - began_ns) / 1e6)
    return statistics.median(took)

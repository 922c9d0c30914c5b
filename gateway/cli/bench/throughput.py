"""Drain: how many no-op jobs a second one dispatcher process takes out of a filled lane."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, dispatcher, fill, finished, fresh_store
from gateway.jobs import Settlement
from gateway.store import Store, Worker

BATCH = 100


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: the bare loop, then the dispatcher, `repetitions` times."""
    bare: list[float] = []
    drained: list[float] = []
    filled: list[float] = []
    payloads = [b'{"n":1}'] * jobs
    loop = asyncio.get_running_loop()
    for _ in range(repetitions):
        async with fresh_store(url) as store:
            began = loop.time()
            await fill(store, NOOP, payloads)
            filled.append(jobs / (loop.time() - began))
            bare.append(jobs / await _bare_drain(store, jobs))
        async with fresh_store(url) as store:
            await fill(store, NOOP, payloads)
            began = loop.time()
            async with dispatcher(url, store):
                drained.append(jobs / (await finished(store, jobs) - began))
    return Report(
        f"drain of {jobs:,} no-op Python jobs, one dispatcher, default settings",
        [
            Figure("dispatcher", "jobs/s", tuple(drained), tuple(bare)),
            Figure("bare claim + settle loop", "jobs/s", tuple(bare)),
            Figure("bulk submit, 500 a call", "jobs/s", tuple(filled)),
        ],
    )


async def _bare_drain(store: Store, jobs: int) -> float:
    """Seconds that claim + settle take with nothing in between: the scripts' and the connection's own limit."""
    worker = Worker(store.client, store.keyspaces[0], "bare", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    loop = asyncio.get_running_loop()
    began = loop.time()
    done = 0
    settlements: list[Settlement] = []
    while done < jobs:
        exchange = await worker.exchange(settlements, worker.next_claim(BATCH, suspects=True))
        done += len(settlements)
        settlements = [Settlement(job.job_id, job.token, "succeeded") for job in exchange.claimed]
    return loop.time() - began

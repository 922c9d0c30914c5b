"""Drain: how many no-op jobs a second one dispatcher process takes out of a filled lane."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.fleet import fleet, python_target
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, dispatcher, fill, finished, fresh_store
from gateway.jobs import Settlement, Submission
from gateway.store import Store, Worker

BATCH = 100


async def measure(url: str, *, jobs: int, repetitions: int, processes: int = 0, slots: int = 100) -> Report:
    """Interleaved: the bare loop, then the dispatcher, `repetitions` times; in this process, or in so many others."""
    bare: list[float] = []
    drained: list[float] = []
    filled: list[float] = []
    payloads = [b'{"n":1}'] * jobs
    for _ in range(repetitions):
        submitted, looped = await bare_rates(url, payloads)
        filled.append(submitted)
        bare.append(looped)
        async with fresh_store(url) as store:
            drain = (
                _drain(url, store, payloads, slots)
                if processes == 0
                else _fleet(url, store, payloads, processes, slots)
            )
            drained.append(jobs / await drain)
    where = "in this process" if processes == 0 else f"{processes} processes"
    return Report(
        f"drain of {jobs:,} no-op Python jobs, {slots} slots, {where}",
        [
            Figure("dispatcher", "jobs/s", tuple(drained), tuple(bare)),
            Figure("bare claim + settle loop", "jobs/s", tuple(bare)),
            Figure("bulk submit, 500 a call", "jobs/s", tuple(filled)),
        ],
    )


async def bare_rates(url: str, payloads: list[bytes]) -> tuple[float, float]:
    """Jobs a second that are submitted while nobody drains, and that a bare loop then claims and settles."""
    loop = asyncio.get_running_loop()
    async with fresh_store(url) as store:
        began = loop.time()
        await fill(store, NOOP, payloads)
        submitted = len(payloads) / (loop.time() - began)
        return submitted, len(payloads) / await _bare_drain(store, len(payloads))


async def _drain(url: str, store: Store, payloads: list[bytes], slots: int) -> float:
    loop = asyncio.get_running_loop()
    await fill(store, NOOP, payloads)
    began = loop.time()
    async with dispatcher(url, store, slots=slots):
        return await finished(store, len(payloads)) - began


async def _fleet(url: str, store: Store, payloads: list[bytes], processes: int, slots: int) -> float:
    loop = asyncio.get_running_loop()
    lane = Submission("", NOOP, b"").lane
    async with fleet(url, store, targets={NOOP: python_target(NOOP)}, processes=processes, slots=slots):
        await store.control_lane(lane, paused=True)
        await fill(store, NOOP, payloads)
        began = loop.time()
        await store.control_lane(lane, paused=False)
        return await finished(store, len(payloads)) - began


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

"""Races: ten processes' worth of claims at once, by the script, and naively by reading first and removing then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, cast

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, fresh_store
from gateway.store import Store, Worker
from gateway.store.connection import connect

RACERS = 10
BATCH = 10


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: `jobs` jobs taken by ten racers, naively and by the script; how many were taken twice, and how fast
    the script gave them out beside one racer alone."""
    naive: list[float] = []
    claimed: list[float] = []
    raced: list[float] = []
    alone: list[float] = []
    for _ in range(repetitions):
        naive.append(float((await _race(url, jobs, RACERS, _naive))[0]))
        twice, rate = await _race(url, jobs, RACERS, _claims)
        claimed.append(float(twice))
        raced.append(rate)
        alone.append((await _race(url, jobs, 1, _claims))[1])
    return Report(
        f"{jobs:,} jobs, {RACERS} racers with {BATCH} a claim",
        [
            Figure("taken twice, by the claim script", "jobs", tuple(claimed)),
            Figure("taken twice, by reading and then removing", "jobs", tuple(naive)),
            Figure("claims by the script", "jobs/s", tuple(raced), tuple(alone)),
        ],
    )


Racer = Callable[[str, Store, int, "Counter[str]"], Coroutine[Any, Any, None]]


async def _race(url: str, jobs: int, racers: int, racer: Racer) -> tuple[int, float]:
    """How many were taken more than once, and how many a second in all."""
    taken: Counter[str] = Counter()
    async with fresh_store(url) as store:
        await fill(store, NOOP, [b"{}"] * jobs)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(racers):
                group.create_task(racer(url, store, number, taken))
        took_s = loop.time() - began
    return sum(times > 1 for times in taken.values()), jobs / took_s


async def _claims(url: str, store: Store, number: int, taken: Counter[str]) -> None:
    client = connect(url)
    worker = Worker(client, store.keyspaces[0], f"racer-{number}", store.lanes, lease_ms=600_000, heartbeat_ms=600_000)
    try:
        while jobs := (await worker.exchange([], worker.next_claim(BATCH, suspects=True))).claimed:
            taken.update(job.job_id for job in jobs)
    finally:
        await client.aclose()


async def _naive(url: str, store: Store, number: int, taken: Counter[str]) -> None:
    client = connect(url)
    lane = f"{store.keyspaces[0].prefix}lane:default"
    try:
        while ids := cast("list[bytes]", await client.zrange(lane, 0, BATCH - 1)):
            taken.update(job_id.decode() for job_id in ids)
            await client.zrem(lane, *ids)
    finally:
        await client.aclose()

"""Slots: how jobs that wait 5 ms each go faster with more of them at once."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import DOZE, dispatcher, fill, finished, fresh_store

SLOTS = (1, 4, 8)


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved over the numbers of slots; the limit is a bare loop that sleeps as often, as many at once."""
    run: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    bare: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    loop = asyncio.get_running_loop()
    for _ in range(repetitions):
        for slots in SLOTS:
            bare[slots].append(jobs / await _bare(jobs, slots))
            async with fresh_store(url) as store:
                await fill(store, DOZE, [b"{}"] * jobs)
                async with dispatcher(url, store, slots=slots):
                    began = loop.time()
                    run[slots].append(jobs / (await finished(store, jobs) - began))
    figures = [Figure(f"{slots} slots", "jobs/s", tuple(run[slots]), tuple(bare[slots])) for slots in SLOTS]
    return Report(f"{jobs:,} jobs of 5 ms", figures)


async def _bare(jobs: int, at_once: int) -> float:
    """Seconds that so many sleeps take with nothing around them."""
    waiting = iter(range(jobs))
    loop = asyncio.get_running_loop()

    async def sleeps() -> None:
        for _ in waiting:
            await asyncio.sleep(0.005)

    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(sleeps())
    return loop.time() - began

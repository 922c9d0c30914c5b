"""End to end: one process submits while another one drains, until all is done."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.fleet import fleet, python_target
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, finished, fresh_store

SLOTS = (25, 50, 100)


async def measure(url: str, *, jobs: int, processes: int, repetitions: int) -> Report:
    """Interleaved over the numbers of slots; the limit is the submit alone, with nobody who drains."""
    drained: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    alone: list[float] = []
    for _ in range(repetitions):
        alone.append(await _submitted(url, jobs))
        for slots in SLOTS:
            drained[slots].append(await _drained(url, jobs, slots, processes))
    figures = [Figure(f"{slots} slots", "jobs/s", tuple(drained[slots]), tuple(alone)) for slots in SLOTS]
    figures.append(Figure("submit alone, 500 a call", "jobs/s", tuple(alone)))
    return Report(f"{jobs:,} no-op jobs submitted and drained at once, {processes} dispatcher processes", figures)


async def _submitted(url: str, jobs: int) -> float:
    loop = asyncio.get_running_loop()
    async with fresh_store(url) as store:
        began = loop.time()
        await fill(store, NOOP, [b'{"n":1}'] * jobs)
        return jobs / (loop.time() - began)


async def _drained(url: str, jobs: int, slots: int, processes: int) -> float:
    loop = asyncio.get_running_loop()
    targets = {NOOP: python_target(NOOP)}
    async with fresh_store(url) as store, fleet(url, store, targets=targets, processes=processes, slots=slots):
        began = loop.time()
        await fill(store, NOOP, [b'{"n":1}'] * jobs)
        return jobs / (await finished(store, jobs) - began)

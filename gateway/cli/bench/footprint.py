"""Footprint: how much memory a dispatcher process holds once many jobs have run through it."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.fleet import fleet, python_target
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, fresh_store
from gateway.store import Store

MIB = 1024 * 1024
SHARE = 50_000


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """The resident memory after `jobs` no-op jobs; the limit is what it was before the first."""
    fresh: list[float] = []
    after: list[float] = []
    for _ in range(repetitions):
        async with fresh_store(url) as store, fleet(url, store, targets={NOOP: python_target(NOOP)}) as running:
            fresh.append(running.resident_bytes()[0] / MIB)
            await _run_through(store, jobs)
            after.append(running.resident_bytes()[0] / MIB)
    return Report(
        f"memory of a dispatcher process, {jobs:,} jobs",
        [
            Figure("after them", "MiB", tuple(after), tuple(fresh)),
            Figure("before the first", "MiB", tuple(fresh)),
        ],
    )


async def _run_through(store: Store, jobs: int) -> None:
    for first in range(0, jobs, SHARE):
        await fill(store, NOOP, [b'{"n":1}'] * min(SHARE, jobs - first))
        await _idle(store)


async def _idle(store: Store) -> None:
    """Until nothing waits or runs: how many are finished says nothing here, since upkeep removes what is too many."""
    async with asyncio.timeout(600):
        while True:
            now = await store.inspect()
            if not now.running and not any(lane.pending for lane in now.lanes.values()):
                return
            await asyncio.sleep(0.05)

"""Lateness: how long after they were due jobs start, when many are due at one instant."""

from __future__ import annotations

import asyncio
import time

from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import NOTE, dispatcher, fill, fresh_store
from gateway.cli.bench.tasks import STARTS
from gateway.store import Store

DELAY_S = 1.0


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Submits `jobs` jobs due in one second, `repetitions` times; between them a bare timer's own lateness."""
    median: list[float] = []
    p99: list[float] = []
    worst: list[float] = []
    bare: list[float] = []
    for _ in range(repetitions):
        bare.append(await _bare_timer())
        async with fresh_store(url) as store, dispatcher(url, store):
            STARTS.expect(jobs)
            ids = await fill(store, NOTE, [b"%d" % number for number in range(jobs)], delay_ms=round(DELAY_S * 1000))
            async with asyncio.timeout(60):
                await STARTS.complete.wait()
            late_ms = await _lateness_ms(store, ids)
            median.append(percentile(late_ms, 0.5))
            p99.append(percentile(late_ms, 0.99))
            worst.append(max(late_ms))
    return Report(
        f"lateness of {jobs:,} jobs due at one instant",
        [
            Figure("p50", "ms", tuple(median)),
            Figure("p99", "ms", tuple(p99), tuple(bare)),
            Figure("worst", "ms", tuple(worst)),
            Figure("a bare timer of the event loop", "ms", tuple(bare)),
        ],
    )


async def _lateness_ms(store: Store, ids: list[str]) -> list[float]:
    """How long after its `run_at`, as its record shows it, each job's callable was entered."""
    found = await store.find_many(ids)
    return [
        STARTS.at[number] * 1000 - it.record.run_at_ms
        for number, it in enumerate(found)
        if it is not None and it.record.run_at_ms is not None
    ]


async def _bare_timer() -> float:
    due = time.time() + 0.1
    await asyncio.sleep(due - time.time())
    return max(0.001, (time.time() - due) * 1000)

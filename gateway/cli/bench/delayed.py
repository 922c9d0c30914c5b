"""Lateness: how long after they were due jobs start, when many are due at one instant."""

from __future__ import annotations

import asyncio
import time

from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import NOTE, dispatcher, fill, fresh_store
from gateway.cli.bench.tasks import LATENESS

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
            LATENESS.expect(jobs)
            due = time.time() + DELAY_S
            await fill(store, NOTE, [b'{"due":%.6f}' % due] * jobs, delay_ms=round((due - time.time()) * 1000))
            async with asyncio.timeout(60):
                await LATENESS.complete.wait()
            late_ms = [late * 1000 for late in LATENESS.seconds]
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


async def _bare_timer() -> float:
    due = time.time() + 0.1
    await asyncio.sleep(due - time.time())
    return max(0.001, (time.time() - due) * 1000)

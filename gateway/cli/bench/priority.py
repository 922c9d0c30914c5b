"""Priority: how soon critical jobs start while lower lanes are full, and how many jobs are started out of order."""

from __future__ import annotations

import asyncio
import time

from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import NOTE, dispatcher, fresh_store
from gateway.cli.bench.tasks import STARTS
from gateway.jobs import Submission
from gateway.store import Store

PROBES = 100
PROBE_EVERY_S = 0.01


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: critical jobs beside nothing, then beside `jobs` of the lowest lane; then all lanes filled at once,
    and claimed. The limit is the latency beside nothing."""
    alone: list[float] = []
    beside: list[float] = []
    inverted: list[float] = []
    for _ in range(repetitions):
        alone.append(await _critical_ms(url, 0))
        beside.append(await _critical_ms(url, jobs))
        inverted.append(float(await _inverted(url, jobs)))
    return Report(
        f"critical jobs beside {jobs:,} of the lowest lane",
        [
            Figure("p99 of critical jobs from submit to start", "ms", tuple(beside), tuple(alone)),
            Figure("the same beside nothing", "ms", tuple(alone)),
            Figure("jobs that start before one of a higher lane, all lanes full", "jobs", tuple(inverted)),
        ],
    )


async def _critical_ms(url: str, backlog: int) -> float:
    async with fresh_store(url) as store:
        await _fill(store, store.lanes[-1], range(PROBES, PROBES + backlog))
        async with dispatcher(url, store):
            STARTS.expect(PROBES + backlog)
            sent: list[float] = []
            for number in range(PROBES):
                sent.append(time.time())
                await _fill(store, store.lanes[0], range(number, number + 1))
                await asyncio.sleep(PROBE_EVERY_S)
            async with asyncio.timeout(60):
                while any(number not in STARTS.at for number in range(PROBES)):  # noqa: ASYNC110 (nothing tells of it)
                    await asyncio.sleep(0.005)
    return percentile([(STARTS.at[number] - at) * 1000 for number, at in enumerate(sent)], 0.99)


async def _inverted(url: str, jobs: int) -> int:
    """Submitted round robin to all lanes, claimed by one dispatcher: how many come before one of a higher lane."""
    async with fresh_store(url) as store:
        lanes = store.lanes
        for at, lane in enumerate(lanes):
            await _fill(store, lane, range(at * jobs, (at + 1) * jobs))
        STARTS.expect(jobs * len(lanes))
        async with dispatcher(url, store):
            async with asyncio.timeout(120):
                await STARTS.complete.wait()
    order = [number // jobs for number in STARTS.at]
    waiting = [order.count(at) for at in range(len(lanes))]
    inverted = 0
    for own in order:
        inverted += any(waiting[higher] for higher in range(own))
        waiting[own] -= 1
    return inverted


async def _fill(store: Store, lane: str, numbers: range) -> None:
    now_ms = time.time_ns() // 1_000_000
    jobs = [Submission(store.new_id(now_ms), NOTE, b"%d" % number, lane=lane) for number in numbers]
    for first in range(0, len(jobs), 500):
        await store.submit(jobs[first : first + 500])

"""Crashes: what becomes of the jobs of a dispatcher that is gone, and whether any of them counts twice."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import COUNT, dispatcher, fill, finished, fresh_store
from gateway.cli.bench.tasks import RUNS
from gateway.jobs import Settlement
from gateway.store import Store, Worker

STRANDED = 100
SETTLED = 10
LEASE_MS = 1_000


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Of `jobs` jobs a dispatcher holds a hundred, has settled ten of these, and is gone; another one runs the rest."""
    late: list[float] = []
    double: list[float] = []
    missing: list[float] = []
    for _ in range(repetitions):
        async with fresh_store(url) as store:
            RUNS.of.clear()
            await fill(store, COUNT, [b"%d" % number for number in range(jobs)])
            settled = await _strand(store, min(STRANDED, jobs))
            began = asyncio.get_running_loop().time()
            async with dispatcher(url, store):
                ended = await finished(store, jobs, timeout_s=60)
            late.append((ended - began) * 1000 - LEASE_MS)
            double.append(float(sum(RUNS.of[number] for number in settled) + sum(n > 1 for n in RUNS.of.values())))
            missing.append(float(jobs - len(settled) - len(RUNS.of)))
    return Report(
        f"{min(STRANDED, jobs)} of {jobs:,} jobs held by a dispatcher that is gone, {SETTLED} of them settled before",
        [
            Figure("jobs that ran although they were over, or twice", "jobs", tuple(double)),
            Figure("jobs that did not run", "jobs", tuple(missing)),
            Figure(f"all done, after the lease of {LEASE_MS / 1000:g} s had run out", "ms", tuple(late)),
        ],
    )


async def _strand(store: Store, jobs: int) -> list[int]:
    """Claims so many, settles a few, and says no more: the numbers of those settled."""
    worker = Worker(store.client, store.keyspaces[0], "gone", store.lanes, lease_ms=LEASE_MS, heartbeat_ms=LEASE_MS)
    claimed = list((await worker.exchange([], worker.next_claim(jobs, suspects=True))).claimed)
    over = claimed[:SETTLED]
    await worker.exchange([Settlement(job.job_id, job.token, "succeeded") for job in over], None)
    return [int(job.body.partition(b"\n")[2]) for job in over]

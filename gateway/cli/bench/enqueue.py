"""Intake by the store: how many jobs a second one process submits, in bulk, many at once, and one after another."""

from __future__ import annotations

import asyncio
import time

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fresh_store
from gateway.jobs import Submission
from gateway.store import Store
from gateway.store.scripts import run
from gateway.store.submit_call import submit_args
from gateway.store.submitter import BATCH

AT_ONCE = 50
PAYLOAD = b'{"n":1}'


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved; the limit of each is the same script called with batches that were encoded beforehand."""
    found: dict[str, list[float]] = {"bulk": [], "at once": [], "single": [], "bare bulk": [], "bare single": []}
    for _ in range(repetitions):
        found["bare bulk"].append(await _bare(url, jobs, BATCH))
        found["bulk"].append(await _bulk(url, jobs))
        found["at once"].append(await _singles(url, jobs, AT_ONCE))
        found["bare single"].append(await _bare(url, jobs // 10, 1))
        found["single"].append(await _singles(url, jobs // 10, 1))
    it = {name: tuple(values) for name, values in found.items()}
    return Report(
        f"submits of {jobs:,} jobs by the store",
        [
            Figure(f"in bulk, {BATCH} a call", "jobs/s", it["bulk"], it["bare bulk"]),
            Figure(f"one by one, {AT_ONCE} at once", "jobs/s", it["at once"], it["bare bulk"]),
            Figure("one after another", "jobs/s", it["single"], it["bare single"]),
            Figure("bare script calls, bulk", "jobs/s", it["bare bulk"]),
            Figure("bare script calls, single", "jobs/s", it["bare single"]),
        ],
    )


async def _bulk(url: str, jobs: int) -> float:
    async with fresh_store(url) as store:
        began = time.perf_counter()
        for first in range(0, jobs, BATCH):
            await store.submit(_jobs(store, min(BATCH, jobs - first)))
        return jobs / (time.perf_counter() - began)


async def _singles(url: str, jobs: int, at_once: int) -> float:
    async with fresh_store(url) as store:
        waiting = iter(range(jobs))

        async def submits() -> None:
            for _ in waiting:
                await store.submit(_jobs(store, 1))

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(submits())
        return jobs / (time.perf_counter() - began)


async def _bare(url: str, jobs: int, at_once: int) -> float:
    async with fresh_store(url) as store:
        batches = [submit_args(_jobs(store, min(at_once, jobs - first))) for first in range(0, jobs, at_once)]
        began = time.perf_counter()
        for batch in batches:
            await run(store.client, "submit", store.keyspaces[0].prefix, batch)
        return jobs / (time.perf_counter() - began)


def _jobs(store: Store, jobs: int) -> list[Submission]:
    now_ms = time.time_ns() // 1_000_000
    return [Submission(store.new_id(now_ms), NOOP, PAYLOAD) for _ in range(jobs)]

"""Retries: how many of a thousand jobs that failed at one instant come back at one instant, by policy."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left

from gateway.backoff import RetryPolicy
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import FAIL_ONCE, dispatcher, fresh_store
from gateway.cli.bench.tasks import STARTS
from gateway.durations import Duration
from gateway.jobs import Options, Submission
from gateway.store import Store

WINDOW_S = 0.01
FIXED = RetryPolicy(policy="fixed", base=Duration(1.0))
JITTER = RetryPolicy()


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: jobs that fail once, with a fixed delay of a second, then with the default policy."""
    fixed: list[float] = []
    jitter: list[float] = []
    for _ in range(repetitions):
        fixed.append(float(await _most_at_once(url, jobs, FIXED)))
        jitter.append(float(await _most_at_once(url, jobs, JITTER)))
    return Report(
        f"{jobs:,} jobs that fail at one instant: most second attempts due in any {WINDOW_S * 1000:.0f} ms",
        [
            Figure("decorrelated jitter (the default)", "jobs", tuple(jitter), tuple(fixed)),
            Figure("fixed delay of a second", "jobs", tuple(fixed)),
        ],
    )


async def _most_at_once(url: str, jobs: int, policy: RetryPolicy) -> int:
    async with fresh_store(url) as store:
        now_ms = time.time_ns() // 1_000_000
        options = Options(retry=policy)
        batch = [Submission(store.new_id(now_ms), FAIL_ONCE, b"%d" % n, options=options) for n in range(jobs)]
        for first in range(0, jobs, 500):
            await store.submit(batch[first : first + 500])
        STARTS.expect(jobs)
        async with dispatcher(url, store, slots=jobs):
            due = sorted(await _due_s(store, [job.job_id for job in batch]))
            async with asyncio.timeout(60):
                await STARTS.complete.wait()
    return max(bisect_left(due, at + WINDOW_S) - index for index, at in enumerate(due))


async def _due_s(store: Store, ids: list[str]) -> list[float]:
    """When each is due for its second attempt, in Unix seconds, read while all of them wait for it."""
    async with asyncio.timeout(30):
        while (await store.inspect()).due < len(ids):  # noqa: ASYNC110 (nothing tells of it but Redis)
            await asyncio.sleep(0.005)
    records = [found.record for found in await store.find_many(ids, short=True) if found is not None]
    return [record.next_attempt_ms / 1000 for record in records if record.next_attempt_ms is not None]

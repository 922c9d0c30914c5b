"""Memory: bytes of Redis per job, waiting and finished, and whether a million jobs run through leave it flat."""

from __future__ import annotations

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, fresh_store
from gateway.jobs import Settlement, Submission
from gateway.store import RetentionLimits, Store, Worker

PAYLOAD = b'{"text":"' + b"x" * 189 + b'"}'
KEYED = "keyed"
KEYED_LIMITS = {"key_concurrency": 1}


async def measure(url: str, *, jobs: int, through: int, repetitions: int) -> Report:
    """Bytes per job with a 200-byte payload; `through` jobs are run through with the default retention at the end."""
    plain: list[float] = []
    finished: list[float] = []
    keyed: list[float] = []
    for _ in range(repetitions):
        async with fresh_store(url) as store:
            before = await _used(store)
            await fill(store, NOOP, [PAYLOAD] * jobs)
            plain.append((await _used(store) - before) / jobs)
            await _drain(store, jobs)
            finished.append((await _used(store) - before) / jobs)
        async with fresh_store(url) as store:
            await store.control_flow(KEYED, KEYED_LIMITS)
            before = await _used(store)
            await _fill_keyed(store, jobs)
            keyed.append((await _used(store) - before) / jobs)
    figures = [
        Figure("a waiting job, 200 B of payload", "B", tuple(plain)),
        Figure("a waiting job with a key of its own", "B", tuple(keyed)),
        Figure("a finished job", "B", tuple(finished)),
    ]
    if through:
        figures.append(
            Figure(
                f"memory after {through:,} jobs, of that after {through // 5:,}", "ratio", await _growth(url, through)
            )
        )
    return Report(f"memory in Redis, {jobs:,} jobs", figures)


async def _growth(url: str, through: int) -> tuple[float]:
    async with fresh_store(url) as store:
        await _run_through(store, through // 5)
        early = await _used(store)
        await _run_through(store, through - through // 5)
        return (await _used(store) / early,)


async def _run_through(store: Store, jobs: int) -> None:
    worker = _worker(store)
    limits = RetentionLimits(finished_ms=86_400_000, finished_most=100_000, dead_ms=86_400_000)
    for first in range(0, jobs, 5_000):
        count = min(5_000, jobs - first)
        await fill(store, NOOP, [PAYLOAD] * count)
        await _drain(store, count)
        while (await worker.upkeep(limits, most=500))[1]:
            pass


async def _fill_keyed(store: Store, jobs: int) -> None:
    for first in range(0, jobs, 500):
        await store.submit(
            [
                Submission(store.new_id(0, target=KEYED), KEYED, PAYLOAD, key=f"customer-{number}")
                for number in range(first, min(first + 500, jobs))
            ]
        )


async def _drain(store: Store, jobs: int) -> None:
    worker, done = _worker(store), 0
    settlements: list[Settlement] = []
    while done < jobs:
        exchange = await worker.exchange(settlements, worker.next_claim(100, suspects=True))
        done += len(settlements)
        settlements = [Settlement(job.job_id, job.token, "succeeded") for job in exchange.claimed]


def _worker(store: Store) -> Worker:
    return Worker(store.client, store.keyspaces[0], "memory", store.lanes, lease_ms=60_000, heartbeat_ms=60_000)


async def _used(store: Store) -> float:
    return float((await store.client.info("memory"))["used_memory"])

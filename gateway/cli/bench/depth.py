"""Cost by depth: what the scripts cost Redis per job while 10,000 to 1,000,000 jobs wait, and with 25,000 running."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, fresh_store
from gateway.jobs import Claimed, Settlement, Status
from gateway.store import Store, Worker
from gateway.store.listing import list_jobs

BATCH = 100
SAMPLE = 2_000
RUNNING = 25_000


async def measure(url: str, *, depths: tuple[int, ...], repetitions: int) -> Report:
    """µs of Redis per job (from `INFO commandstats`), at each depth; the limit is the first depth's figure."""
    report = Report("cost in Redis per job, by jobs waiting")
    base: dict[str, tuple[float, ...]] = {}
    for depth in depths:
        costs = [await _at_depth(url, depth) for _ in range(repetitions)]
        for name in costs[0]:
            values = tuple(cost[name] for cost in costs)
            report.figures.append(Figure(f"{name} at {depth:,}", "µs", values, base.setdefault(name, values)))
    return report


async def _at_depth(url: str, depth: int) -> dict[str, float]:
    async with fresh_store(url) as store:
        ids = await fill(store, NOOP, [b'{"n":1}'] * depth)
        worker = Worker(store.client, store.keyspaces[0], "depth", store.lanes, lease_ms=600_000, heartbeat_ms=600_000)
        costs = {"submit": await _cost(store, SAMPLE, lambda: _submit(store))}
        costs["claim + settle"] = await _cost(store, SAMPLE, lambda: _claim_and_settle(worker))
        costs["cancel"] = await _cost(store, 500, lambda: _cancel(store, ids[-500:]))
        costs["list a page of 100"] = await _cost(store, 1, lambda: _list(store))
        costs["die + replay"] = await _cost(store, 500, lambda: _die_and_replay(store, worker))
        if depth > 2 * RUNNING:
            await _claim(worker, RUNNING)
            costs[f"claim + settle, {RUNNING:,} running"] = await _cost(
                store, SAMPLE, lambda: _claim_and_settle(worker)
            )
        return costs


async def _cost(store: Store, jobs: int, work: Callable[[], Awaitable[None]]) -> float:
    before = await _busy_us(store)
    await work()
    return (await _busy_us(store) - before) / jobs


async def _busy_us(store: Store) -> float:
    stats = await store.client.info("commandstats")
    return sum(
        float(stats[name]["usec"]) for name in ("cmdstat_fcall", "cmdstat_evalsha", "cmdstat_eval") if name in stats
    )


async def _submit(store: Store) -> None:
    await fill(store, NOOP, [b'{"n":1}'] * SAMPLE)


async def _claim(worker: Worker, jobs: int) -> list[Claimed]:
    claimed: list[Claimed] = []
    while len(claimed) < jobs:
        exchange = await worker.exchange([], worker.next_claim(min(BATCH, jobs - len(claimed)), suspects=True))
        claimed += exchange.claimed
    return claimed


async def _claim_and_settle(worker: Worker) -> None:
    for _ in range(SAMPLE // BATCH):
        jobs = await _claim(worker, BATCH)
        await worker.exchange([Settlement(job.job_id, job.token, "succeeded") for job in jobs], None)


async def _cancel(store: Store, ids: list[str]) -> None:
    for job_id in ids:
        await store.cancel(job_id)


async def _list(store: Store) -> None:
    await list_jobs(store, Status.PENDING, limit=100)


async def _die_and_replay(store: Store, worker: Worker) -> None:
    jobs = await _claim(worker, 500)
    now_ms = time.time_ns() // 1_000_000
    error = f'{{"type":"bench","message":"at {now_ms}"}}'
    dead = [Settlement(job.job_id, job.token, "dead", reason="fatal", error=error) for job in jobs]
    await worker.exchange(dead, None)
    for job in jobs:
        await store.replay(job.job_id)

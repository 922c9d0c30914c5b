"""Cost: what the life of a job takes of Redis's processor, by batch, by how many wait, and behind limits."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, fresh_store
from gateway.jobs import Settlement, Submission
from gateway.store import Store, Worker

SAMPLE = 5_000
BATCH = 100
KEYS = (1, 10, 1_000)
KEYED = "keyed"
KEYED_LIMITS = {"concurrency": 1_000_000}


async def measure(url: str, *, waiting: int, repetitions: int) -> Report:
    """Submit, claim and settle, in µs of script time (`INFO commandstats`); the limit is the plain job's figure."""
    found: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for _ in range(repetitions):
        async with fresh_store(url) as store:
            add("plain", await _life(store, BATCH, ("",)))
            add("one", await _life(store, 1, ("",)))
        for keys in KEYS:
            async with fresh_store(url) as store:
                await store.control_flow(KEYED, KEYED_LIMITS)
                add(f"{keys} keys", await _life(store, BATCH, [f"key-{n}" for n in range(keys)]))
        add("empty", await _empty(url))
    async with fresh_store(url) as store:
        await fill(store, NOOP, [b'{"n":1}'] * waiting)
        for _ in range(repetitions):
            add("deep", await _life(store, BATCH, ("",)))
    it = {name: tuple(values) for name, values in found.items()}
    flows = [Figure(f"in a flow, {n:,} keys", "µs", it[f"{n} keys"], it["plain"]) for n in KEYS]
    return Report(
        "processor time of Redis per job: submit, claim and settle",
        [
            Figure(f"batches of {BATCH}", "µs", it["plain"]),
            Figure("one at a time", "µs", it["one"], it["plain"]),
            Figure(f"batches of {BATCH}, {waiting:,} waiting", "µs", it["deep"], it["plain"]),
            *flows,
            Figure("an empty script", "µs", it["empty"]),
        ],
    )


async def _life(store: Store, batch: int, keys: Sequence[str]) -> float:
    target = KEYED if keys[0] else NOOP
    worker = Worker(store.client, store.keyspaces[0], "cost", store.lanes, lease_ms=600_000, heartbeat_ms=600_000)
    before = await script_us(store)
    for first in range(0, SAMPLE, batch):
        numbers = range(first, min(SAMPLE, first + batch))
        now_ms = time.time_ns() // 1_000_000
        jobs = [
            Submission(store.new_id(now_ms, target=target), target, b'{"n":1}', key=keys[n % len(keys)])
            for n in numbers
        ]
        await store.submit(jobs)
    settlements: list[Settlement] = []
    done = 0
    while done < SAMPLE:
        exchange = await worker.exchange(settlements, worker.next_claim(batch, suspects=True))
        done += len(settlements)
        settlements = [Settlement(job.job_id, job.token, "succeeded") for job in exchange.claimed]
    return (await script_us(store) - before) / SAMPLE


async def _empty(url: str) -> float:
    async with fresh_store(url) as store:
        before = await script_us(store)
        for _ in range(1_000):
            await store.client.eval("return 1", 0)
        return (await script_us(store) - before) / 1_000


async def script_us(store: Store) -> float:
    """Microseconds that the server has spent in scripts."""
    stats = await store.client.info("commandstats")
    names = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
    return sum(float(stats[name]["usec"]) for name in names if name in stats)

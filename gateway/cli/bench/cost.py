"""Cost: what the life of a job takes of Redis's processor, by batch, by how many wait, and behind limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, fresh_store
from gateway.jobs import Settlement, Submission
from gateway.store import Store, Worker
from gateway.store.claimed import parse_claim
from gateway.store.scripts import Arg, run
from gateway.store.submit_call import submit_args
from gateway.store.worker import settle_args

SAMPLE = 5_000
BATCH = 100
KEYS = (1, 10, 1_000)
KEYED = "keyed"
KEYED_LIMITS = {"concurrency": 1_000_000}
SENT_AT_ONCE = 100
"""Calls in a row that the server finds in its socket: it works through them without a pause, its caches warm."""

EMPTY = "return 1"


async def measure(url: str, *, waiting: int, repetitions: int) -> Report:
    """Submit, claim and settle, in µs of script time (`INFO commandstats`).

    The limit is the plain job's figure; of a job alone it is a script that does nothing, called in the same way.
    """
    found: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for _ in range(repetitions):
        async with fresh_store(url) as store:
            add("plain", await _life(store, BATCH, ("",)))
            add("paced", await _life(store, 1, ("",)))
            add("hot", await _hot(store))
            add("empty paced", await _empty(store, 1))
            add("empty hot", await _empty(store, SENT_AT_ONCE))
        for keys in KEYS:
            async with fresh_store(url) as store:
                await store.control_flow(KEYED, KEYED_LIMITS)
                add(f"{keys} keys", await _life(store, BATCH, [f"key-{n}" for n in range(keys)]))
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
            Figure("one at a time, calls in a row", "µs", it["hot"], it["empty hot"]),
            Figure("one at a time, each awaited", "µs", it["paced"], it["empty paced"]),
            Figure(f"batches of {BATCH}, {waiting:,} waiting", "µs", it["deep"], it["plain"]),
            *flows,
            Figure("an empty script, calls in a row", "µs", it["empty hot"]),
            Figure("an empty script, each awaited", "µs", it["empty paced"]),
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


async def _hot(store: Store) -> float:
    """The life of jobs that each have calls of their own, many of which are encoded first, and leave in one turn of the
    event loop: in one write."""
    keyspace = store.keyspaces[0]
    worker = Worker(store.client, keyspace, "cost", store.lanes, lease_ms=600_000, heartbeat_ms=600_000)

    async def call(name: str, each: Sequence[Sequence[Arg]]) -> list[Any]:
        return await asyncio.gather(*[run(store.client, name, keyspace.prefix, args) for args in each])

    before = await script_us(store)
    for _ in range(SAMPLE // SENT_AT_ONCE):
        now_ms = time.time_ns() // 1_000_000
        jobs = [Submission(store.new_id(now_ms, target=NOOP), NOOP, b'{"n":1}') for _ in range(SENT_AT_ONCE)]
        await call("submit", [submit_args([job]) for job in jobs])
        claims = [worker.next_claim(1, suspects=True) for _ in jobs]
        replies = await call("claim", [worker.claim_args(claim) for claim in claims])
        held = [
            Settlement(job.job_id, job.token, "succeeded")
            for claim, reply in zip(claims, replies, strict=True)
            for job in parse_claim(reply, partition=keyspace.partition, nonce=claim.nonce)[2]
        ]
        await call("settle", [settle_args([each]) for each in held])
    return (await script_us(store) - before) / SAMPLE


async def _empty(store: Store, at_once: int) -> float:
    """A script that does nothing, as often as a job's three."""
    prefix = store.keyspaces[0].prefix
    sha = str(await store.client.script_load(EMPTY))
    before = await script_us(store)
    for _ in range(3 * SAMPLE // at_once):
        await store.client.send([("EVALSHA", sha, 1, prefix)] * at_once)
    return (await script_us(store) - before) / (3 * SAMPLE)


async def script_us(store: Store) -> float:
    """Microseconds that the server has spent in scripts."""
    stats = await store.client.info("commandstats")
    names = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
    return sum(float(stats[name]["usec"]) for name in names if name in stats)

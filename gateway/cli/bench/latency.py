"""Latency: how long after it was submitted a job starts, idle and at half of what the dispatcher can do."""

from __future__ import annotations

import asyncio
import time

from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import NOOP, NOTE, dispatcher, fill, fresh_store
from gateway.cli.bench.tasks import STARTS
from gateway.jobs import Submission
from gateway.store import Store, Worker

RATE = 100
TICK_S = 0.002
PEAK_JOBS = 20_000


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """`jobs` single submits at 100 a second, then two seconds' jobs at half of the peak, which is measured first; the
    limit is a submit and a claim, one after the other, with nothing in between, at 100 a second as well: one at once
    after the other finds all caches warm and nobody asleep, and takes half as long. All of it in one process."""
    found: dict[str, list[float]] = {name: [] for name in ("p50", "p99", "bare50", "bare99", "loaded", "peak")}
    for _ in range(repetitions):
        bare = await _bare_ms(url, jobs)
        idle = await _latencies_ms(url, jobs, rate=RATE)
        peak = await _peak(url)
        loaded = await _latencies_ms(url, round(peak), rate=peak / 2)
        for name, values, q in (("p50", idle, 0.5), ("p99", idle, 0.99), ("bare50", bare, 0.5), ("bare99", bare, 0.99)):
            found[name].append(percentile(values, q))
        found["loaded"].append(percentile(loaded, 0.99))
        found["peak"].append(peak)
    it = {name: tuple(values) for name, values in found.items()}
    return Report(
        "from submit to start, in one process",
        [
            Figure(f"p50 at {RATE} jobs/s", "ms", it["p50"], it["bare50"]),
            Figure(f"p99 at {RATE} jobs/s", "ms", it["p99"], it["bare99"]),
            Figure("p99 at half of the peak", "ms", it["loaded"]),
            Figure("the peak: submitted and drained at once", "jobs/s", it["peak"]),
            Figure(f"bare submit, then claim, at {RATE} a second: p50", "ms", it["bare50"]),
            Figure(f"bare submit, then claim, at {RATE} a second: p99", "ms", it["bare99"]),
        ],
    )


async def _latencies_ms(url: str, jobs: int, *, rate: float) -> list[float]:
    """How long each took to start, submitted one by one, or tick by tick where one tick brings several."""
    at_once = max(1, round(rate * TICK_S))
    every_s = at_once / rate
    sent: list[float] = []
    async with fresh_store(url) as store, dispatcher(url, store), asyncio.TaskGroup() as group:
        await _warm(store)
        STARTS.expect(jobs)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for tick, first in enumerate(range(0, jobs, at_once)):
            await asyncio.sleep(began + tick * every_s - loop.time())
            numbers = range(first, min(jobs, first + at_once))
            sent += [time.time()] * len(numbers)
            group.create_task(store.submit(_jobs(store, NOTE, numbers)))
        async with asyncio.timeout(60):
            await STARTS.complete.wait()
    return [(STARTS.at[number] - at) * 1000 for number, at in enumerate(sent)]


async def _warm(store: Store) -> None:
    STARTS.expect(20)
    for number in range(20):
        await store.submit(_jobs(store, NOTE, range(number, number + 1)))
    async with asyncio.timeout(60):
        await STARTS.complete.wait()


async def _peak(url: str) -> float:
    """Jobs per second that one process submits and runs at once."""
    async with fresh_store(url) as store, dispatcher(url, store):
        await _warm(store)
        STARTS.expect(PEAK_JOBS)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await fill(store, NOTE, [b"%d" % number for number in range(PEAK_JOBS)])
        async with asyncio.timeout(60):
            await STARTS.complete.wait()
        return PEAK_JOBS / (loop.time() - began)


async def _bare_ms(url: str, jobs: int) -> list[float]:
    async with fresh_store(url) as store:
        worker = Worker(store.client, store.keyspaces[0], "bare", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
        took: list[float] = []
        loop = asyncio.get_running_loop()
        first_s = loop.time()
        for number in range(jobs):
            await asyncio.sleep(first_s + number / RATE - loop.time())
            began = time.perf_counter()
            await store.submit(_jobs(store, NOOP, range(number, number + 1)))
            exchange = await worker.exchange([], worker.next_claim(1, suspects=True))
            assert len(exchange.claimed) == 1, "a job that was just submitted is there to be claimed"
            took.append((time.perf_counter() - began) * 1000)
        return took


def _jobs(store: Store, target: str, numbers: range) -> list[Submission]:
    now_ms = time.time_ns() // 1_000_000
    return [Submission(store.new_id(now_ms), target, b"%d" % number) for number in numbers]

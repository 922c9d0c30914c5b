"""Fairness and isolation: what limits do for the jobs behind them, and that they do nothing to any others."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gateway.cli.bench.fleet import fleet, python_target
from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import LIMITS, NARROW, NOTE, PACED, dispatcher, fill, fresh_store
from gateway.cli.bench.tasks import STARTS
from gateway.jobs import Submission
from gateway.limits import flow_fields
from gateway.store import Store

PROCESSES = 3
PROBES = 300
PROBE_EVERY_S = 0.01


async def measure(url: str, *, jobs: int, backlog: int, seconds: int, repetitions: int) -> Report:
    """A late key beside `jobs` jobs of another one; a rate that several dispatchers share for `seconds`; another
    target's latency while `backlog` jobs wait behind that rate, beside the same without them."""
    overtaken = [float(await _late_key(url, jobs)) for _ in range(repetitions)]
    worst, used = await _paced(url, seconds)
    alone, beside = await _isolation(url, backlog, repetitions)
    rate, burst = _rate(), float(LIMITS[PACED].burst or 0)
    return Report(
        "flows: a late key, a shared rate, another target beside a backlog",
        [
            Figure(f"of {jobs:,} of one key, how many start before a later key's first", "jobs", tuple(overtaken)),
            Figure(f"most starts in any second at {rate:g}/s, burst {burst:g}", "jobs", (worst,), (rate + burst,)),
            Figure(f"starts in {seconds} s, beside the tokens there were", "jobs", (used,), (burst + rate * seconds,)),
            Figure(f"p99 of another target beside {backlog:,} that wait", "ms", tuple(beside), tuple(alone)),
        ],
    )


def _rate() -> float:
    rate = LIMITS[PACED].rate
    assert rate is not None
    return rate.number / rate.per_s


async def _late_key(url: str, jobs: int) -> int:
    """How many jobs of the first key start between the acceptance of the second key's only one and its start."""
    async with fresh_store(url) as store:
        await _limit(store, NARROW)
        now_ms = time.time_ns() // 1_000_000
        first = [Submission(store.new_id(now_ms), NARROW, b"%d" % number, key="a") for number in range(jobs)]
        for at in range(0, jobs, 500):
            await store.submit(first[at : at + 500])
        STARTS.expect(jobs + 1)
        async with dispatcher(url, store):
            await _until(lambda: len(STARTS.at) > jobs // 100)
            await store.submit([Submission(store.new_id(now_ms), NARROW, b"%d" % jobs, key="b")])
            accepted_s = time.time()
            await _until(lambda: jobs in STARTS.at)
            return sum(accepted_s < at < STARTS.at[jobs] for at in list(STARTS.at.values()))


async def _paced(url: str, seconds: int) -> tuple[float, float]:
    """The most starts in any one second, and all of the first `seconds`, by several dispatcher processes."""
    async with fresh_store(url) as store:
        await _limit(store, PACED)
        with tempfile.TemporaryDirectory(prefix="gateway-bench-") as name:
            stamps = Path(name) / "starts"
            stamps.touch()
            limits = LIMITS[PACED]
            paced = f'limit = {{ rate = "{limits.rate}", burst = {limits.burst} }}'
            async with fleet(url, store, targets={PACED: python_target("stamp", paced)}, processes=PROCESSES):
                await fill(store, PACED, [f'"{stamps}"'.encode()] * round(_rate() * seconds * 2))
                await _until(lambda: stamps.stat().st_size > 0)
                await asyncio.sleep(seconds + 1)
            starts = sorted(float(line) for line in stamps.read_text().split())
    within = [at for at in starts if at < starts[0] + seconds]
    return float(max(sum(at <= other < at + 1 for other in within) for at in within)), float(len(within))


async def _isolation(url: str, backlog: int, repetitions: int) -> tuple[list[float], list[float]]:
    """The p99 in ms from submission to start of another target, without the backlog and with it, in turn."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(repetitions):
        for found, waiting in ((alone, 0), (beside, backlog)):
            async with fresh_store(url) as store:
                await _limit(store, PACED)
                await fill(store, PACED, [b'"/dev/null"'] * waiting)
                async with dispatcher(url, store):
                    found.append(await _latency_ms(store))
    return alone, beside


async def _latency_ms(store: Store) -> float:
    STARTS.expect(PROBES)
    sent: list[float] = []
    for number in range(PROBES):
        sent.append(time.time())
        await fill(store, NOTE, [b"%d" % number])
        await asyncio.sleep(PROBE_EVERY_S)
    async with asyncio.timeout(60):
        await STARTS.complete.wait()
    return percentile([(STARTS.at[number] - at) * 1000 for number, at in enumerate(sent)], 0.99)


async def _limit(store: Store, target: str) -> None:
    await store.control_flow(target, flow_fields(LIMITS[target], ordered=False))


async def _until(true: Callable[[], bool], *, timeout_s: float = 120.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not true():  # noqa: ASYNC110 (what is looked at tells of nothing)
            await asyncio.sleep(0.0005)

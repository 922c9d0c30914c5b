"""End to end: one process submits while another one drains, until all is done."""

from __future__ import annotations

import asyncio

from gateway.cli.bench.fleet import fleet, python_target
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, fill, finished, fresh_store
from gateway.cli.bench.throughput import bare_rates

SLOTS = (25, 50, 100)


async def measure(url: str, *, jobs: int, processes: int, repetitions: int) -> Report:
    """Interleaved over the numbers of slots; the limits are the submit alone, with nobody who drains, and then a bare
    loop that drains alone."""
    drained: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    alone: list[float] = []
    bare: list[float] = []
    payloads = [b'{"n":1}'] * jobs
    for _ in range(repetitions):
        submitted, looped = await bare_rates(url, payloads)
        alone.append(submitted)
        bare.append(looped)
        for slots in SLOTS:
            drained[slots].append(await _drained(url, payloads, slots, processes))
    who = f"{processes} dispatcher process{'' if processes == 1 else 'es'}"
    title = f"{jobs:,} no-op jobs submitted and drained at once, {who}; the bare limit is the submit alone"
    return Report(
        title,
        [
            *(Figure(f"{slots} slots", "jobs/s", tuple(drained[slots]), tuple(alone)) for slots in SLOTS),
            Figure("submit alone, 500 a call", "jobs/s", tuple(alone)),
            Figure("bare claim + settle loop", "jobs/s", tuple(bare)),
            *(Figure(f"{slots} slots, by bare loop", "ratio", _by(drained[slots], bare)) for slots in SLOTS),
        ],
    )


def _by(rates: list[float], bare: list[float]) -> tuple[float, ...]:
    return tuple(rate / limit for rate, limit in zip(rates, bare, strict=True))


async def _drained(url: str, payloads: list[bytes], slots: int, processes: int) -> float:
    loop = asyncio.get_running_loop()
    targets = {NOOP: python_target(NOOP)}
    async with fresh_store(url) as store, fleet(url, store, targets=targets, processes=processes, slots=slots):
        began = loop.time()
        await fill(store, NOOP, payloads)
        return len(payloads) / (await finished(store, len(payloads)) - began)

"""Persistence: what writing every change to disk costs of a drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import NOOP, dispatcher, fill, finished, fresh_store
from gateway.store.connection import connect

_REWRITE_S = 60.0


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: the drain with the append-only file off, then on (`appendfsync everysec`); the server's own settings
    come back at the end."""
    off: list[float] = []
    on: list[float] = []
    async with _kept_settings(url):
        for _ in range(repetitions):
            off.append(await _drain(url, jobs, "no"))
            on.append(await _drain(url, jobs, "yes"))
    return Report(
        f"drain of {jobs:,} no-op jobs by persistence",
        [
            Figure("append-only file, synced every second", "jobs/s", tuple(on), tuple(off)),
            Figure("none", "jobs/s", tuple(off)),
        ],
    )


async def _drain(url: str, jobs: int, append: str) -> float:
    loop = asyncio.get_running_loop()
    async with fresh_store(url) as store:
        await store.client.config_set("appendfsync", "everysec")
        await store.client.config_set("appendonly", append)
        async with asyncio.timeout(_REWRITE_S):
            while (await store.client.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await fill(store, NOOP, [b'{"n":1}'] * jobs)
        began = loop.time()
        async with dispatcher(url, store):
            return jobs / (await finished(store, jobs) - began)


@asynccontextmanager
async def _kept_settings(url: str) -> AsyncIterator[None]:
    client = connect(url)
    try:
        kept = {name: str((await client.config_get(name))[name]) for name in ("appendonly", "appendfsync")}
        try:
            yield
        finally:
            for name, value in kept.items():
                await client.config_set(name, value)
    finally:
        await client.aclose()

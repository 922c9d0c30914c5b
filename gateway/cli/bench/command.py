"""Commands: how many no-op programs a second one dispatcher process runs as jobs."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any

from gateway import processes
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import TRUE, bench_settings, dispatcher, fill, finished, fresh_store

PAYLOAD = b'{"n":1}'


async def measure(url: str, *, jobs: int, repetitions: int) -> Report:
    """Interleaved: the bare loop, then the dispatcher, `repetitions` times; both with as many at once."""
    bare: list[float] = []
    run: list[float] = []
    loop = asyncio.get_running_loop()
    for _ in range(repetitions):
        bare.append(jobs / await _bare(jobs, at_once=bench_settings().gateway.slots))
        async with fresh_store(url) as store:
            await fill(store, TRUE, [PAYLOAD] * jobs)
            async with dispatcher(url, store):
                began = loop.time()
                run.append(jobs / (await finished(store, jobs) - began))
    return Report(
        f"{jobs:,} no-op command jobs, one dispatcher, default settings",
        [
            Figure("dispatcher", "jobs/s", tuple(run), tuple(bare)),
            Figure("bare loop, same launcher and pipes", "runs/s", tuple(bare)),
        ],
    )


async def _bare(jobs: int, *, at_once: int) -> float:
    """Seconds that so many runs of `true` take without jobs around them."""
    launcher = processes.Launcher({})
    program = shutil.which("true", path=os.defpath) or "true"
    spec: dict[str, Any] = {"argv": [program], "env": {}, "cwd": None, "grace_s": 1.0}
    waiting = iter(range(jobs))
    loop = asyncio.get_running_loop()

    async def runs() -> None:
        for _ in waiting:
            child = processes.Child(launcher.spawn(), max_output=1024, max_stderr=1024)
            try:
                await child.run(spec, PAYLOAD)
                await child.sweep()
            finally:
                child.close()

    try:
        await runs_once(launcher)
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(runs())
        return loop.time() - began
    finally:
        await launcher.aclose()


async def runs_once(launcher: processes.Launcher) -> None:
    """Has the launcher started, which is no part of what is measured."""
    child = processes.Child(launcher.spawn(), max_output=1, max_stderr=1)
    child.close()

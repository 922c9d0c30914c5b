"""Many runs of commands, some cut short, after which nothing may be left: `python -m tests.executors.runs 1000`."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from executors.command import CommandConfig, CommandExecutor
from gateway.testing.executors import make_attempt

WAIT_S = 20.0
AT_ONCE = 8


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def launchers() -> list[int]:
    return [child for child in children(os.getpid()) if b"supervisor.py" in Path(f"/proc/{child}/cmdline").read_bytes()]


async def wait_for_death(pid: int | str) -> None:
    """Returns when the process is over; fails if it is not so in time."""
    try:
        descriptor = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        ended = await asyncio.to_thread(poller.poll, WAIT_S * 1000)
    finally:
        os.close(descriptor)
    assert ended, f"process {pid} lives on"


async def run_many(executor: CommandExecutor, runs: int) -> None:
    """Runs commands that leave a child behind, that cannot start, and that are given up early; then looks in /proc."""
    config = CommandConfig(argv=("sh", "-c", "sleep 30 > /dev/null 2>&1 & touch $TMPDIR/kept; cat"))
    failing = CommandConfig(argv=("no-such-program",))
    gate = asyncio.Semaphore(AT_ONCE)

    async def once(number: int) -> None:
        async with gate:
            attempt = make_attempt(failing if number % 5 == 0 else config, b"[1]")
            task = asyncio.ensure_future(executor.execute(attempt))
            given_up_after_s = number % 200 / 4000 if number % 5 == 1 else WAIT_S
            await asyncio.wait({task}, timeout=given_up_after_s)
            task.cancel()
            await asyncio.wait({task}, timeout=WAIT_S)

    await once(2)
    gc.collect()  # what earlier tests dropped is not counted
    (launcher,) = launchers()
    before = [_descriptors(pid) for pid in (os.getpid(), launcher)]
    folders = _folders()
    await asyncio.gather(*(once(number) for number in range(runs)))
    assert launchers() == [launcher]
    for supervisor in children(launcher):
        await wait_for_death(supervisor)  # of those given up before they had read what to run
    for _ in range(500):
        if not children(launcher):  # reaped as well, for which there is no event
            break
        await asyncio.sleep(0.01)
    assert children(launcher) == []
    assert [_descriptors(pid) for pid in (os.getpid(), launcher)] == before
    assert _folders() - folders == set()


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _folders() -> set[str]:
    """The commands' own folders that are still there, but for those of other tests' running ones."""
    found = set()
    for folder in Path(tempfile.gettempdir()).glob("gateway-*"):
        if (folder / "kept").exists():
            found.add(str(folder))
    return found


async def _main(runs: int) -> None:
    executor = CommandExecutor()
    began_s = time.monotonic()
    await run_many(executor, runs)
    await executor.aclose()
    left = children(os.getpid())
    assert left == [], left
    print(f"{runs} runs in {time.monotonic() - began_s:.1f} s: no process, no zombie, no descriptor, no folder left")


if __name__ == "__main__":
    for make in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))

"""A held event loop: told of while it is held, with whose job holds it and where."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import structlog

from gateway.dispatch.blocked import Holder, LoopWatch
from gateway.settings import Settings
from tests.dispatch.running import dispatching
from tests.dispatch.tasks import Stage
from tests.waiting import until

ROOT = Path(__file__).parents[2]


async def test_target_whose_job_holds_the_loop_is_named_and_counted_once(
    settings: Settings, namespace: str, stage: Stage
) -> None:
    with structlog.testing.capture_logs() as logged:
        async with dispatching(settings) as running:
            job_id = await running.client.submit("block", {"stage": namespace, "s": 1.9}, delay_ms=200)
            await until(lambda: _true("unblock" in stage.log))
            assert (await running.client.ended(job_id)).status == "succeeded"
            assert running.sample("gateway_event_loop_blocked_total", target="block") == 1
    (line,) = [entry for entry in logged if entry["event"].startswith("the event loop is blocked")]
    assert (line["target"], line["job_id"]) == ("block", job_id)
    assert line["at"][-1].startswith("tasks.py:")
    assert line["at"][-1].endswith(" in block")


@pytest.mark.parametrize("held_s", [0.0, 0.6])
async def test_loop_is_watched_by_its_limit(held_s: float) -> None:
    told: list[Holder] = []
    watch = LoopWatch(
        asyncio.get_running_loop(), holder=lambda task: Holder("t", str(task)), blocked=told.append, limit_s=0.2
    )
    watch.start()
    time.sleep(held_s)  # noqa: ASYNC251  that is the point
    await asyncio.sleep(0.6)
    watch.stop()
    assert len(told) == (1 if held_s else 0)
    assert all("test_loop_is_watched" in holder.job_id for holder in told)


STOPPED = """
import asyncio
from gateway.dispatch.blocked import LoopWatch, Holder

async def main():
    told = []
    watch = LoopWatch(asyncio.get_running_loop(), holder=lambda task: Holder(), blocked=told.append, limit_s=0.2)
    watch.start()
    print("watching", flush=True)
    await asyncio.sleep(0.8)
    watch.stop()
    print(len(told), flush=True)

asyncio.run(main())
"""


def test_process_that_was_stopped_is_not_taken_for_a_held_loop() -> None:
    command = [sys.executable, "-c", textwrap.dedent(STOPPED)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.7)  # how long it is stopped
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "0\n"


async def _true(fact: bool) -> bool:
    return fact

"""Calls that wait for a thread or a process: not in their attempts' time, and not for others that hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import orjson
import pytest

from gateway.dispatch.health import health_app
from gateway.jobs import Options
from gateway.lag import LoopLag
from gateway.runner import Runner
from gateway.vitals import Vitals
from tests.dispatch.running import Dispatching, claimed, dispatching, settings_for
from tests.dispatch.stray import WAITS_S
from tests.dispatch.tasks import GO
from tests.servers import Server
from tests.waiting import until

CALLS = 110
"""More that hang than there are threads."""

TARGETS = """
[targets.hang]
executor = "python"
callable = "tests.dispatch.tasks:hang"
timeout = "100ms"
limit = { concurrency = 50 }
retry = { max_attempts = 1 }
[targets.quick]
executor = "python"
callable = "tests.dispatch.tasks:quick"
timeout = "5s"
retry = { max_attempts = 1 }
[targets.slow]
executor = "python"
callable = "tests.dispatch.tasks:slow"
isolation = "process"
processes = 1
timeout = "4s"
retry = { max_attempts = 1 }
[targets.stray]
executor = "stray"
retry = { max_attempts = 1 }
"""


@pytest.fixture
async def running(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Dispatching]:
    GO.clear()
    settings = settings_for(tmp_path, valkey_server.url, namespace, more=TARGETS)
    try:
        async with dispatching(msgspec.structs.replace(settings, plugins=("tests.dispatch.stray",))) as running:
            yield running
    finally:
        GO.set()


async def test_calls_that_hang_leave_threads_to_other_targets(running: Dispatching) -> None:
    registry = running.runner.registry
    assert await _ready(running) == {"status": "ready"}
    hanging = [await running.client.submit("hang", max_attempts=1) for _ in range(CALLS)]
    errors = [orjson.loads((await running.client.ended(job_id)).error) for job_id in hanging]
    quick = [await running.client.ended(await running.client.submit("quick", n)) for n in range(3)]
    assert [(record.status, record.attempts) for record in quick] == [("succeeded", 1)] * 3
    types = {error["type"] for error in errors}
    assert types == {"timeout", "threads"}
    told = next(error["message"] for error in errors if error["type"] == "threads")
    assert told.startswith("tests.dispatch.tasks:hang was not called: ")
    answer = await _ready(running)
    assert answer["status"] == "unready"
    assert "calls of tests.dispatch.tasks:hang did not end with their attempts" in answer["reason"]
    GO.set()
    await until(lambda: _holds(registry.trouble() == ""))
    assert (
        await running.client.ended(await running.client.submit("hang", options=Options(timeout=20.0)))
    ).status == "succeeded"


async def test_jobs_outlast_the_cancellation_of_many_calls_of_their_function(running: Dispatching) -> None:
    options = Options(timeout=30.0)
    held = [await running.client.submit("hang", options=options) for _ in range(40)]
    for job_id in held:
        await running.client.reached(job_id, "running")
    for job_id in held[:30]:
        await running.client.store.cancel(job_id)
        await running.client.ended(job_id)
    waiting = [await running.client.submit("hang", options=options, max_attempts=1) for _ in range(3)]
    for job_id in waiting:
        await running.client.reached(job_id, "running")
    for job_id in held[30:]:
        await running.client.store.cancel(job_id)
        await running.client.ended(job_id)
    GO.set()
    records = [await running.client.ended(job_id) for job_id in waiting]
    assert [(record.status, record.attempts) for record in records] == [("succeeded", 1)] * 3


async def test_jobs_that_wait_for_a_process_do_not_run_out_of_time(running: Dispatching) -> None:
    began_s = time.monotonic()
    jobs = [await running.client.submit("slow", 0.9) for _ in range(6)]
    records = [await running.client.ended(job_id, timeout_s=60) for job_id in jobs]
    assert [(record.status, record.attempts) for record in records] == [("succeeded", 1)] * 6
    assert time.monotonic() - began_s > 4, "the last has waited longer than an attempt may take"


async def test_jobs_that_wait_for_a_process_are_given_back_unspent_at_a_stop(running: Dispatching) -> None:
    jobs = [await running.client.submit("slow", 3600, options=Options(timeout=3600.0)) for _ in range(3)]
    for job_id in jobs:
        await running.client.reached(job_id, "running")
    running.stop.ask()
    running.stop.ask()
    await asyncio.wait_for(asyncio.shield(running.task), 30)
    records = [await running.client.record(job_id) for job_id in jobs]
    assert [(record.status, record.attempts) for record in records] == [("pending", 0)] * 3


async def test_attempts_time_begins_after_what_is_untimed(running: Dispatching) -> None:
    options = Options(timeout=WAITS_S / 2)
    record = await running.client.ended(await running.client.submit("stray", "waits, then tells", options=options))
    assert (record.status, record.attempts) == ("succeeded", 1)
    assert 0 < float(record.result) <= WAITS_S / 2


async def test_attempt_ends_in_time_after_what_is_untimed(running: Dispatching) -> None:
    options = Options(timeout=WAITS_S / 2)
    record = await running.client.ended(
        await running.client.submit("stray", "waits, then hangs", options=options, max_attempts=1)
    )
    assert orjson.loads(record.error)["type"] == "timeout"


async def test_job_is_cancelled_while_it_waits_untimed(running: Dispatching) -> None:
    options = Options(timeout=WAITS_S / 2)
    job_id = await running.client.submit("stray", "waits for ever", options=options)
    await running.client.reached(job_id, "running")
    assert await running.client.store.cancel(job_id) == "asked"
    assert (await running.client.ended(job_id)).status == "cancelled"


@pytest.mark.parametrize(("how", "outcome"), [("waits, then tells", "succeeded"), ("waits, then hangs", "dead")])
async def test_runner_alone_keeps_the_time_after_what_is_untimed(running: Dispatching, how: str, outcome: str) -> None:
    runner: Runner = running.runner
    job = claimed("stray", how, options=Options(timeout=WAITS_S / 2), attempt=3)
    assert (await asyncio.wait_for(runner.run(job, asyncio.Event()), 20)).outcome == outcome


async def _ready(running: Dispatching) -> dict[str, str]:
    app = health_app(
        running.client.store,
        running.metrics,
        vitals=Vitals("dispatcher", "0"),
        lag=LoopLag(),
        idle_s=running.dispatcher.idle_s,
        stuck_after_s=30.0,
        targets=(),
        trouble=running.runner.registry.trouble,
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dispatcher") as client:
        answer: dict[str, str] = (await client.get("/readyz")).json()
    return answer


async def _holds(fact: bool) -> bool:
    return fact

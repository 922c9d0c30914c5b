"""A Redis that comes back empty: what the configuration registers is registered again before jobs run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.store.schedules import list_schedules
from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.dispatch.tasks import STAGES, Stage
from tests.servers import Server
from tests.waiting import until

MORE = """
[targets.limited]
executor = "python"
callable = "tests.dispatch.tasks:hold"
limit = { concurrency = 2 }
[targets.sorted]
executor = "python"
callable = "tests.dispatch.tasks:hold"
ordered = true
[schedules.tick]
cron = "0 0 1 1 *"
target = "echo"
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(tcp=True) as server:
        yield server


@pytest.fixture
async def emptied(server: Server, tmp_path: Path, namespace: str) -> AsyncIterator[Dispatching]:
    async with dispatching(settings_for(tmp_path, server.url, namespace, more=MORE)) as running:
        yield running


@pytest.fixture
def stages(namespace: str) -> Iterator[dict[str, Stage]]:
    stages = {target: Stage() for target in ("limited", "sorted")}
    STAGES.update(stages)
    yield stages
    for target in stages:
        del STAGES[target]


async def is_scheduled(running: Dispatching) -> bool:
    return [each.schedule.name for each in await list_schedules(running.client.store, limit=9)] == ["tick"]


async def test_limits_order_and_schedules_hold_when_all_keys_are_gone(
    emptied: Dispatching, stages: dict[str, Stage]
) -> None:
    await until(lambda: is_scheduled(emptied))
    await emptied.client.store.client.flushall()
    ids = [
        await emptied.client.submit(target, {"stage": target, "label": number}, key="k")
        for number in range(6)
        for target in stages
    ]
    await until(lambda: is_scheduled(emptied))
    for stage in stages.values():
        await asyncio.wait_for(stage.started.wait(), 20)
    echo = await emptied.client.submit("echo", 1)
    await emptied.client.ended(echo)
    assert (stages["limited"].most, stages["sorted"].most) == (2, 1)
    for stage in stages.values():
        stage.go.set()
    assert {(await emptied.client.ended(job_id)).status.value for job_id in ids} == {"succeeded"}
    assert (stages["limited"].most, stages["sorted"].most) == (2, 1)
    assert [line for line in stages["sorted"].log if line.startswith("start")] == [f"start {n}" for n in range(6)]


async def test_restart_of_a_server_that_keeps_nothing_is_mended_and_told_of_once(
    emptied: Dispatching, server: Server, stages: dict[str, Stage]
) -> None:
    with capture_logs() as logs:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await until(lambda: _is_registered(emptied))
        key = emptied.client.store.signing_keys
        await emptied.client.ended(await emptied.client.submit("echo", 1))
    told = [line for line in logs if line["event"] == "Redis has lost its data"]
    assert [line["log_level"] for line in told] == ["error"]
    assert emptied.client.store.signing_keys == key


async def _is_registered(running: Dispatching) -> bool:
    try:
        return await is_scheduled(running)
    except Exception:
        return False

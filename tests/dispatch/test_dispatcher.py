"""The dispatcher as a whole: what it runs, how much at once, in which order, and how it stops."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gateway.dispatch.process import run_dispatcher
from gateway.errors import ConfigError, StoreMismatch
from gateway.settings import Settings
from tests.dispatch.running import Dispatching, client_of, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.servers import Server
from tests.waiting import until

WAIT_S = 60.0


@pytest.mark.parametrize("host", ["no-such.invalid", "192.0.2.1"])
async def test_host_that_is_not_of_this_machine_stops_the_start(
    valkey_server: Server, namespace: str, tmp_path: Path, host: str
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, dispatcher_host=host, dispatcher_port=0)
    with pytest.raises(ConfigError, match=rf"gateway\.dispatcher_host: {host}: not an address of this machine"):
        await run_dispatcher(settings, redis_url=valkey_server.url)


async def test_job_runs_and_its_result_is_kept(running: Dispatching) -> None:
    job_id = await running.client.submit("echo", {"n": [1, 2]})
    record = await running.client.ended(job_id)
    assert (record.status, record.result, record.attempts) == ("succeeded", b'{"n":[1,2]}', 1)
    assert record.dispatcher == running.dispatcher.dispatcher_id
    assert running.sample("gateway_attempt_duration_seconds_count", lane="default", outcome="succeeded") == 1


async def test_idle_dispatcher_starts_a_job_at_once(running: Dispatching) -> None:
    await running.client.ended(await running.client.submit("echo"))
    waits_s = []
    for _ in range(10):
        began_s = time.monotonic()
        await running.client.ended(await running.client.submit("echo"))
        waits_s.append(time.monotonic() - began_s)
    # without wake-ups each would wait for the poll, 0.5 s at least
    assert sorted(waits_s)[5] < 0.25


async def test_scheduled_job_runs_when_it_is_due(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("echo", delay_ms=700))
    assert record.run_at_ms is not None
    assert record.started_ms is not None
    assert 0 <= record.started_ms - record.run_at_ms < 400


async def test_no_more_than_the_slots_run_at_once(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, slots=3)
    async with dispatching(settings) as running:
        client = running.client
        ids = [await client.submit("hold", {"stage": namespace, "label": str(at)}) for at in range(9)]
        await until(lambda: _true(stage.active == 3))
        # nothing is claimed ahead of a free slot either
        assert (await client.store.inspect()).running == 3
        stage.go.set()
        for job_id in ids:
            assert (await client.ended(job_id)).status == "succeeded"
        assert stage.most == 3


async def test_critical_jobs_go_first_when_there_is_one_slot(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, slots=1)
    async with dispatching(settings) as running:
        client = running.client
        await client.submit("hold", {"stage": namespace})
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
        for at in range(5):
            await client.submit("mark", {"stage": namespace, "label": f"low {at}"}, lane="low")
        for at in range(5):
            await client.submit("mark", {"stage": namespace, "label": f"critical {at}"}, lane="critical")
        stage.go.set()
        await until(lambda: _true(len(stage.log) == 12))
    ran = stage.log[2:]
    assert ran == [f"{lane} {at}" for lane in ("critical", "low") for at in range(5)]


async def test_drain_waits_for_what_runs_and_claims_nothing_new(
    running: Dispatching, namespace: str, stage: Stage
) -> None:
    client = running.client
    held = await client.submit("hold", {"stage": namespace})
    await asyncio.wait_for(stage.started.wait(), WAIT_S)
    running.stop.ask()
    await asyncio.sleep(0)
    late = await client.submit("echo")
    assert not running.task.done()
    stage.go.set()
    await asyncio.wait_for(running.task, WAIT_S)
    assert (await client.record(held)).status == "succeeded"
    assert ((await client.record(late)).status, (await client.record(late)).attempts) == ("pending", 0)
    seen = await client.store.inspect()
    assert (seen.running, seen.dispatchers) == (0, 0)


async def test_second_signal_releases_at_once_and_spends_no_attempt(
    running: Dispatching, namespace: str, stage: Stage
) -> None:
    client = running.client
    ids = [await client.submit("hold", {"stage": namespace, "label": str(at)}) for at in range(3)]
    await until(lambda: _true(stage.active == 3))
    running.stop.ask()
    running.stop.ask()
    await asyncio.wait_for(running.task, WAIT_S)
    assert sorted(stage.log)[:3] == ["cancelled 0", "cancelled 1", "cancelled 2"]
    records = [await client.record(job_id) for job_id in ids]
    assert {(record.status, record.attempts, record.stalls) for record in records} == {("pending", 0, 0)}
    assert await client.count("reclaimed") == 0


async def test_drain_releases_what_still_runs_when_its_time_is_up(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, drain="200ms")
    async with dispatching(settings) as running:
        job_id = await running.client.submit("hold", {"stage": namespace})
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
        running.stop.ask()
        await asyncio.wait_for(running.task, WAIT_S)
        record = await running.client.record(job_id)
        assert (record.status, record.attempts) == ("pending", 0)


async def test_released_job_runs_elsewhere_from_the_front(settings: Settings, namespace: str, stage: Stage) -> None:
    async with dispatching(settings) as first:
        job_id = await first.client.submit("hold", {"stage": namespace, "label": "it"})
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
    stage.go.set()
    async with dispatching(settings) as second:
        record = await second.client.ended(job_id)
    assert (record.status, record.attempts) == ("succeeded", 1)
    assert stage.log == ["start it", "cancelled it", "start it", "end it"]


async def test_nothing_stays_leased_when_it_is_stopped_under_load(settings: Settings) -> None:
    async with client_of(settings) as client:
        for round_ in range(12):
            async with dispatching(settings) as running:
                for _ in range(20):
                    await client.submit("echo")
                for _ in range(round_):
                    await asyncio.sleep(0)
                running.stop.ask()
                await asyncio.wait_for(running.task, WAIT_S)
            assert (await client.store.inspect()).running == 0, f"round {round_}"
        assert await client.count("reclaimed") == 0


async def test_it_ends_with_an_error_when_the_data_became_another_versions(settings: Settings) -> None:
    with pytest.raises(StoreMismatch, match="newer version"):
        await _run_until_a_newer_version_takes_over(settings)


async def _run_until_a_newer_version_takes_over(settings: Settings) -> None:
    async with dispatching(settings) as running:
        store = running.client.store
        await running.client.ended(await running.client.submit("echo"))
        await store.client.hset(f"{store.keyspaces[0].prefix}conf", "min_writer", "99")
        await asyncio.wait([running.task], timeout=WAIT_S)
        assert running.task.done()


async def _true(fact: bool) -> bool:
    return fact


@pytest.mark.parametrize("lease", ["9s", "30s"])  # under the shorter one no claim stands by
async def test_a_job_finds_nothing_that_jobs_of_claims_before_its_own_left_in_the_context(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, lease: str
) -> None:
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, slots=4, lease=lease)) as running:
        payload = {"stage": namespace, "label": "one", "turns": 5}
        for _ in range(3):
            await running.client.ended(await running.client.submit("mind", payload))
        for job_id in [await running.client.submit("mind", payload) for _ in range(30)]:
            await running.client.ended(job_id)
    assert stage.log == ["one after nobody"] * 33

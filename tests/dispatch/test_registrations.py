"""Targets registered at run time, as a dispatcher that was there before sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from gateway.jobs import Record
from gateway.store.registered import put_registered, remove_registered
from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.egress.receiver import Receiver, always, answer, stall
from tests.servers import Server
from tests.waiting import until_so


@pytest.fixture
async def calling(tmp_path: Path, valkey_server: Server, namespace: str) -> AsyncIterator[Dispatching]:
    more = '[egress]\nallow = ["127.0.0.1"]\n'
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=more)) as running:
        yield running


async def register(running: Dispatching, url: str, *, name: str = "late", **config: object) -> None:
    table = {"executor": "http", "url": url, "retry": {"max_attempts": 2, "policy": "fixed", "base": "10ms"}}
    await put_registered(running.client.store, name, orjson.dumps(table | config))


async def test_job_of_a_target_registered_a_moment_ago_finds_it(calling: Dispatching) -> None:
    async with Receiver(always(answer(body=b"hello"))) as receiver:
        for number in range(5):
            await register(calling, receiver.url, name=f"late-{number}")
            record = await calling.client.ended(await calling.client.submit(f"late-{number}", 1))
            assert (record.status.value, orjson.loads(record.result)) == ("succeeded", "hello")


async def test_update_takes_effect_for_waiting_jobs_within_two_seconds(calling: Dispatching) -> None:
    async with Receiver(always(answer(body=b"new"))) as receiver:
        await register(calling, "http://127.0.0.1:1/")
        await calling.client.ended(await calling.client.submit("late", 1))
        waiting = await calling.client.submit("late", 1, delay_ms=2_000)
        await register(calling, receiver.url)
        record = await calling.client.ended(waiting)
        assert orjson.loads(record.result) == "new"
        assert receiver.connections == 1


async def test_removed_target_lets_its_jobs_die_of_it(calling: Dispatching) -> None:
    async with Receiver(stall) as receiver:
        await register(calling, receiver.url, timeout="1500ms")
        running = await calling.client.submit("late", 1)
        await receiver.arrived()
        await remove_registered(calling.client.store, "late")
        await until_so(lambda: "late" not in calling.runner.registry.targets)
        waiting = await calling.client.submit("late", 1)
        records: list[Record] = [await calling.client.ended(job_id) for job_id in (running, waiting)]
    assert records[1].reason == "no_target"
    assert (records[0].reason, orjson.loads(records[0].error)["type"]) in (
        ("no_target", "no_target"),
        ("exhausted", "timeout"),
    )


async def test_definition_that_cannot_be_used_hides_no_other(calling: Dispatching) -> None:
    async with Receiver(always(answer())) as receiver:
        await put_registered(calling.client.store, "broken", b'{"executor": "of a newer version"}')
        await put_registered(calling.client.store, "no-json", b"{")
        await register(calling, receiver.url)
        assert (await calling.client.ended(await calling.client.submit("late", 1))).status == "succeeded"
        assert (await calling.client.ended(await calling.client.submit("broken", 1))).reason == "no_target"

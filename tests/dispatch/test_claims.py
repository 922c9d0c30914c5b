"""The claim loop against a Redis that loses replies, forgets its scripts, falls silent, dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError

from gateway.store.scripts import script
from tests.dispatch.running import Client, Dispatching, client_of, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.waiting import ended, until

SCRIPTS = ("claim", "settle", "exchange", "submit")


@pytest.fixture
async def proxied(
    proxy: Proxy, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Dispatching]:
    """A dispatcher behind the proxy, with settings of its own where a test has some, warmed up: a script that the
    server does not know yet has no reply to lose."""
    own: dict[str, Any] = getattr(request, "param", {})
    async with dispatching(settings_for(tmp_path, proxy.url, namespace, **own)) as running:
        await load_scripts(running.client.store, *SCRIPTS)
        await running.client.ended(await running.client.submit("echo"))
        yield running


@pytest.mark.parametrize(
    ("name", "proxied"),
    # with such a lease no claim stands by, and the first job is claimed by a call that settles nothing
    [("claim", {"lease": "9s"}), ("exchange", {})],
    indirect=["proxied"],
)
async def test_jobs_run_once_when_a_reply_is_lost(
    proxied: Dispatching, proxy: Proxy, namespace: str, stage: Stage, name: str
) -> None:
    client = proxied.client
    proxy.lose_reply_to(script(name).sha)
    ids = [await client.submit("mark", {"stage": namespace, "label": str(at)}) for at in range(20)]
    records = [await client.ended(job_id) for job_id in ids]
    assert proxy.lost == 1
    assert {(record.status, record.attempts) for record in records} == {("succeeded", 1)}
    assert sorted(stage.log) == sorted(map(str, range(20)))
    assert await client.count("reclaimed") == 0
    assert proxied.sample("gateway_leases_lost_total") == 0


async def test_work_goes_on_when_redis_forgets_its_scripts_again_and_again(proxied: Dispatching) -> None:
    client = proxied.client

    async def forget() -> None:
        while True:
            await client.store.client.script_flush()
            await client.store.client.function_flush()
            await asyncio.sleep(0.002)

    forgetting = asyncio.create_task(forget())
    try:
        ids = [await client.submit("echo", at) for at in range(60)]
        records = [await client.ended(job_id) for job_id in ids]
    finally:
        await ended(forgetting)
    assert [int(record.result) for record in records] == list(range(60))
    assert {record.attempts for record in records} == {1}


async def test_work_goes_on_when_redis_is_killed_and_comes_back(namespace: str, tmp_path: Path, stage: Stage) -> None:
    with Server(extra=["--appendonly", "yes", "--appendfsync", "always"]) as server:
        async with dispatching(settings_for(tmp_path, server.url, namespace)) as running:
            client = running.client
            held = await client.submit("hold", {"stage": namespace, "label": "held"})
            later = await client.submit("echo", "later", delay_ms=1000)
            await asyncio.wait_for(stage.started.wait(), 10)
            server.kill()
            stage.go.set()  # it ends while nobody can be told
            await until(lambda: _true(stage.log[-1] == "end held"))
            await asyncio.to_thread(server.start)
            await _answers(client)
            records = [await client.ended(job_id) for job_id in (held, later)]
            assert [(record.status, record.attempts) for record in records] == [("succeeded", 1)] * 2
            assert (await client.ended(await client.submit("echo", "new"))).status == "succeeded"
            assert not running.task.done()
    assert stage.log == ["start held", "end held"]


async def test_work_goes_on_when_redis_was_silent_for_a_while(namespace: str, tmp_path: Path) -> None:
    with Server() as server:
        async with dispatching(settings_for(tmp_path, server.url, namespace)) as running:
            client = running.client
            await client.ended(await client.submit("echo"))
            later = await client.submit("echo", "later", delay_ms=200)
            server.suspend()
            await asyncio.sleep(1.7)  # longer than a reply may take: the one thing waited for is the silence itself
            server.resume()
            await _answers(client)
            assert (await client.ended(later)).attempts == 1
            assert not running.task.done()


async def test_jobs_are_shared_when_several_dispatchers_work(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, slots=5)
    async with client_of(settings) as client:
        ids = [await client.submit("mark", {"stage": namespace, "label": str(at)}) for at in range(200)]
        async with dispatching(settings) as one, dispatching(settings) as other:
            records = [await client.ended(job_id) for job_id in ids]
            names = {one.dispatcher.dispatcher_id, other.dispatcher.dispatcher_id}
    assert {record.attempts for record in records} == {1}
    assert {record.dispatcher for record in records} == names
    assert sorted(map(int, stage.log)) == list(range(200))


async def _answers(client: Client) -> None:
    """Waits until the store's own connections have found the server again."""

    async def pong() -> bool:
        try:
            return bool(await client.store.client.ping())
        except (RedisError, OSError):
            return False

    await until(pong)


async def _true(fact: bool) -> bool:
    return fact

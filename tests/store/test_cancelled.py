"""Cancelled calls: the cancellation always gets through, and what comes after is in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from gateway.store import Store
from gateway.store.waits import Waits
from tests.servers import Server
from tests.store.site import LANES


@pytest.fixture(params=["unix", "tcp"])
async def store(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Store]:
    server: Server = request.getfixturevalue("valkey_server" if request.param == "unix" else "valkey_cluster")
    url = f"redis://127.0.0.1:{server.port}/0" if server.cluster else server.url
    store = await Store.open(url, namespace=namespace, lanes=LANES)
    yield store
    await store.aclose()


async def test_cancellation_gets_through_whenever_it_comes(store: Store) -> None:
    rng = random.Random(3)

    async def call() -> None:
        await store.inspect()
        await asyncio.Event().wait()

    for _ in range(400):
        task = asyncio.create_task(call())
        for _ in range(rng.randrange(40)):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, "a cancelled call goes on"
        assert task.cancelled()
    assert (await store.inspect()).running == 0


async def test_waits_close_whenever_it_comes(store: Store) -> None:
    job_id = store.new_id(1_700_000_000_000)
    rng = random.Random(4)
    for _ in range(60):
        waits = Waits(store)
        waiting = asyncio.create_task(waits.until_over(job_id, 30))
        for _ in range(rng.randrange(60)):
            await asyncio.sleep(0)
        await asyncio.wait_for(waits.aclose(), 5)
        await asyncio.wait_for(waiting, 5)
        assert waits.waiting == 0

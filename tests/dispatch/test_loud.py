"""An error in what a claim loop calls ends its dispatcher, wherever it was called from: none goes on without it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.slots import Slots
from gateway.jobs import Claimed, Submission
from gateway.keys import JobIds
from gateway.store import Store, Worker
from tests.servers import Server


def fail(jobs: Sequence[Claimed], asked_s: float) -> None:
    raise LookupError("nothing starts here")


async def loop_of(server: Server, namespace: str) -> tuple[Store, ClaimLoop]:
    store = await Store.open(server.url, namespace=namespace, lanes=("default",))
    worker = Worker(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    return store, ClaimLoop(worker, Slots(5), start=fail, settled=lambda *_: None, rng=random.Random(1))


@pytest.mark.parametrize("delay_ms", [0, 300])
async def test_loop_ends_when_what_it_starts_fails(valkey_server: Server, namespace: str, delay_ms: int) -> None:
    store, loop = await loop_of(valkey_server, namespace)
    await store.submit([Submission(JobIds().new(1, 0), "t", b"{}", delay_ms=delay_ms)])
    with pytest.raises(LookupError):
        await asyncio.wait_for(loop.run(), 10)
    await store.aclose()


async def test_loop_ends_when_it_cannot_read_what_is_handed_over(valkey_server: Server, namespace: str) -> None:
    store, loop = await loop_of(valkey_server, namespace)
    running = asyncio.ensure_future(loop.run())
    await asyncio.sleep(0)
    loop.hand_over(b"nothing of the kind")
    with pytest.raises(ValueError, match="unpack"):
        await asyncio.wait_for(running, 10)
    await store.aclose()

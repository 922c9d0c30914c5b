"""When a claim loop says that every outcome is written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.slots import Slots
from gateway.jobs import Claimed, Settlement, Submission
from gateway.keys import JobIds
from gateway.store import ClaimRequest, Exchange, Store, Worker
from tests.servers import Server
from tests.waiting import ended


class Held(Worker):
    """A worker whose answers are handed on once they are let go."""

    came: asyncio.Event
    go: asyncio.Event

    def begin(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> None:
        """All leave by `exchange`."""

    async def exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        answer = await super().exchange(settlements, claim)
        self.came.set()
        await self.go.wait()
        return answer


async def test_what_the_last_claim_brought_is_given_back_before_all_counts_as_written(
    valkey_server: Server, namespace: str
) -> None:
    store = await Store.open(valkey_server.url, namespace=namespace, lanes=("default",))
    await store.submit([Submission(JobIds().new(1, 0), "t", b"{}")])
    worker = Held(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    worker.came, worker.go = asyncio.Event(), asyncio.Event()
    told: list[str] = []

    def give_back(jobs: Sequence[Claimed], asked_s: float) -> None:
        for one in jobs:
            loop.settle(Settlement(one.job_id, one.token, "released"))

    def settled(settlements: Sequence[Settlement], statuses: Sequence[str]) -> None:
        told.extend(statuses)

    loop = ClaimLoop(worker, Slots(1), start=give_back, settled=settled, rng=random.Random(1))
    running = asyncio.create_task(loop.run())
    try:
        await asyncio.wait_for(worker.came.wait(), 20)
        loop.stop_claiming()
        written = asyncio.create_task(loop.wait_written())
        await asyncio.sleep(0)
        worker.go.set()
        await asyncio.wait_for(written, 20)
        assert told == ["pending"]
    finally:
        await ended(running)
        await store.aclose()

"""When jobs that are due at an instant are asked for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.slots import Slots
from gateway.jobs import Claimed, Settlement, Submission
from gateway.keys import JobIds
from gateway.store import ClaimRequest, Exchange, Store, Worker
from tests.servers import Server
from tests.waiting import ended


class Belated(Worker):
    """A worker whose first claim's answer is on its way for a while."""

    way_s = 3.0

    def begin(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> None:
        """All leave by `exchange`."""

    async def exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        answer = await super().exchange(settlements, claim)
        way_s, self.way_s = self.way_s, 0.0
        await asyncio.sleep(way_s)
        return answer


async def test_what_is_due_is_not_late_by_the_way_that_the_last_answer_took(
    valkey_server: Server, namespace: str
) -> None:
    store = await Store.open(valkey_server.url, namespace=namespace, lanes=("default",))
    due = Submission(JobIds().new(1, 0), "t", b"{}", delay_ms=3200)
    began = time.monotonic()
    await store.submit([due])
    worker = Belated(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    started: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def start(jobs: Sequence[Claimed], asked_s: float) -> None:
        if jobs:
            started.set_result(time.monotonic())

    loop = ClaimLoop(
        worker,
        Slots(1),
        start=start,
        settled=lambda settlements, statuses: None,
        rng=random.Random(1),
        partitions=64,  # polled so seldom that the poll is not what finds it
    )
    running = asyncio.create_task(loop.run())
    try:
        took = await asyncio.wait_for(started, 20) - began
    finally:
        await ended(running)
        await store.aclose()
    assert 3.1 < took < 5.7, "6.2 s: it was asked for when the time that is left had passed since the answer came"

"""Work that goes on while servers come and go: what was acknowledged when, and what was refused."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import orjson

from gateway.errors import StoreError
from gateway.jobs import Submission
from gateway.store import Store
from gateway.store.durability import Durability
from tests.waiting import until

RESUME_S = 10.0
"""After a promotion: far above what tests/topology/failovers.py measures, for machines with other things to do."""


@dataclass(slots=True)
class Load:
    """Submits one job after another, each under an id of its own; a refused one is sent again until it is taken."""

    store: Store
    target: str
    durability: Durability = "memory"
    acknowledged: dict[str, float] = field(default_factory=dict)
    refused: list[tuple[float, str]] = field(default_factory=list)

    async def run(self, *, every_s: float = 0.006) -> None:
        """A job every so often, as far as that can be had; what was missed meanwhile is not made up for."""
        at, next_s = 0, time.monotonic()
        while True:
            job_id = self.store.new_id(time.time_ns() // 1_000_000)
            job = Submission(job_id, self.target, orjson.dumps({"n": at}))
            at += 1
            while True:
                try:
                    answers = await self.store.submit([job], self.durability)
                    break
                except StoreError as error:
                    self.refused.append((time.monotonic(), str(error)))
                    await asyncio.sleep(0.02)
            assert [(each.verdict, each.job_id) for each in answers] == [("accepted", job_id)]
            self.acknowledged[job_id] = time.monotonic()
            next_s = max(next_s + every_s, time.monotonic())
            await asyncio.sleep(next_s - time.monotonic())

    async def more(self, count: int = 20, *, timeout_s: float = 15.0) -> None:
        """Returns once so many more are acknowledged."""
        goal = len(self.acknowledged) + count

        async def enough() -> bool:
            return len(self.acknowledged) >= goal

        await until(enough, timeout_s=timeout_s)

    def first_after(self, at_s: float) -> float:
        """How long after an instant (monotonic) the first one was acknowledged."""
        return min(each for each in self.acknowledged.values() if each > at_s) - at_s

    async def missing(self) -> list[str]:
        """The acknowledged jobs that Redis knows nothing of."""
        ids = list(self.acknowledged)
        found = [one for at in range(0, len(ids), 200) for one in await self.store.find_many(ids[at : at + 200])]
        return [job_id for job_id, one in zip(ids, found, strict=True) if one is None]

    async def unfinished(self) -> list[str]:
        """The acknowledged jobs that did not succeed (yet)."""
        ids = list(self.acknowledged)
        found = [one for at in range(0, len(ids), 200) for one in await self.store.find_many(ids[at : at + 200])]
        return [
            job_id
            for job_id, one in zip(ids, found, strict=True)
            if one is not None and one.record.status != "succeeded"
        ]


@contextlib.asynccontextmanager
async def loading(
    store: Store, target: str, *, producers: int = 1, durability: Durability = "memory"
) -> AsyncIterator[Load]:
    """A load that goes on until the block ends."""
    load = Load(store, target, durability)
    tasks = [asyncio.create_task(load.run()) for _ in range(producers)]
    try:
        await load.more()
        yield load
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

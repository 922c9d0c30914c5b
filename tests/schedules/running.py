"""Schedulers over one store whose clock a test moves, and what became of what they fired."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gateway.dispatch.schedules import Scheduler
from gateway.jobs import Record
from gateway.schedules import JobFacts, Schedule
from gateway.store.schedules import Standing, find_schedule, home_of, put_schedule
from tests.store.site import Site

FACTS = JobFacts("default", 5)


@dataclass(slots=True)
class Yard:
    """One schedule named `s` on `site`, and any number of schedulers that fire it."""

    site: Site
    told: list[str] = field(default_factory=list)
    facts: JobFacts = FACTS

    async def start(self, at: str, cron: str, **facts: Any) -> None:
        """Sets the clock to a time of 29 November 2026 (UTC) and defines the schedule."""
        await self.move(at)
        await self.define(cron, **facts)

    async def define(self, cron: str, *, target: str = "t", **facts: Any) -> Schedule:
        schedule = Schedule(name="s", cron=cron, target=target, **facts)
        await put_schedule(self.site.store, schedule)
        self.site.partition = home_of(self.site.store, schedule)
        return schedule

    async def move(self, at: str) -> None:
        """Sets the clock."""
        await self.site.clock.advance(ms(at) - self.site.clock.now_ms)

    def scheduler(self) -> Scheduler:
        def fired(schedule: Schedule, job_id: str, lane: str) -> None:
            self.told.append(job_id)

        return Scheduler(self.site.store, {}, facts_of=lambda _: self.facts, fired=fired, rng=random.Random(1))

    async def fire(self, schedulers: int = 1) -> None:
        """Lets so many schedulers at once fire until nothing is due."""
        each = [self.scheduler() for _ in range(schedulers)]
        while 0.0 in await asyncio.gather(*(it.fire_due(self.site.partition) for it in each)):
            pass

    async def standing(self) -> Standing:
        return await find_schedule(self.site.store, "s")

    async def jobs(self) -> list[Record]:
        """The jobs that the schedule made, by their slot."""
        ids = [record.job_id for record in await self.site.records() if "schedule:s" in record.options.tags]
        found = [await self.site.record(job_id) for job_id in ids]
        return sorted(found, key=lambda record: record.run_at_ms or 0)

    async def slots(self) -> list[str]:
        """The clock times of the slots that made a job."""
        return [clock(record.run_at_ms) for record in await self.jobs()]

    async def next(self) -> str:
        return clock((await self.standing()).slot_ms)

    async def counts(self) -> tuple[int, int, int]:
        """Slots fired, missed and overlapped."""
        it = await self.standing()
        return it.fired, it.missed, it.overlapped


def ms(text: str) -> int:
    return round(datetime.fromisoformat(f"2026-11-29T{text}").replace(tzinfo=UTC).timestamp() * 1000)


def clock(at_ms: int | None) -> str:
    return "" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"

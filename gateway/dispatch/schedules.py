"""The schedule loops: slots fire as they come due.

Every dispatcher runs them. Of all that find a slot due one fires it, and the others find it gone, which is no fault.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import structlog

from gateway.dispatch.failures import first_failure
from gateway.dispatch.file_schedules import FileSchedules
from gateway.errors import StoreError, StoreMismatch
from gateway.pauses import Pauses
from gateway.schedules import JobFacts, Schedule, plan
from gateway.store import Store
from gateway.store.slots import Due, DueSchedule, Fired, due_schedules, fire_slots

log = structlog.get_logger(__name__)

DUE_MOST = 50
LOOKED_AT_MOST = 10_000
"""Due schedules that are looked at where none of those before could fire."""

POLL_S = (0.5, 1.0)
"""Between these, at random: how soon a new or resumed schedule is seen."""

_RETRY_S = (0.25, 2.0)
_LEAST_S = 0.005


class Scheduler:
    """Fires the schedules of a store. `facts_of` says what their jobs take from their targets; `fired` is told of
    every job that was made here, by its schedule, id and lane. `file` is what is `configured`."""

    def __init__(
        self,
        store: Store,
        configured: Mapping[str, Schedule],
        *,
        facts_of: Callable[[Schedule], JobFacts],
        fired: Callable[[Schedule, str, str], None],
        rng: random.Random,
    ) -> None:
        self.file = FileSchedules(store, configured, rng=rng)
        self._store = store
        self._facts_of = facts_of
        self._fired = fired
        self._rng = rng

    async def run(self) -> None:
        """Registers what is configured, then fires what is due, until cancelled; raises StoreMismatch."""
        await self.file.register()
        log.info("scheduler started", schedules=len(self.file.configured))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.file.keep_registered())
                group.create_task(self.file.keep_named())
                for partition in range(self._store.partitions):
                    group.create_task(self._keep_firing(partition))
        except ExceptionGroup as failures:
            raise first_failure(failures) from failures
        finally:
            log.info("scheduler stopped")

    async def fire_due(self, partition: int) -> float:
        """Fires what is due in a partition now; seconds until it should be looked at again. Raises StoreError."""
        seen, most = 0, DUE_MOST
        while True:
            due = await due_schedules(self._store, partition, most=most)
            verdicts = [await self._fire(partition, due, each) for each in due.schedules[seen:]]
            if "fired" in verdicts:
                return 0.0  # there may be more, and what fired waits for its next slot now
            if len(due.schedules) < most or most > LOOKED_AT_MOST:
                break
            # none of these could: a full lane, or a definition that is not for this process, stands before the others
            seen, most = most, most * 4
        poll_s = self._rng.uniform(*POLL_S)
        return poll_s if due.later_ms is None else min(poll_s, max(_LEAST_S, due.later_ms / 1000))

    async def _keep_firing(self, partition: int) -> None:
        pauses = Pauses(*_RETRY_S, rng=self._rng)
        while True:
            try:
                wait_s = await self.fire_due(partition)
                pauses.begin_anew()
            except StoreMismatch:
                raise
            except StoreError as error:
                wait_s = pauses.next_s()
                log.warning("schedules wait", partition=partition, error=str(error), retry_in_s=round(wait_s, 2))
            await asyncio.sleep(wait_s)

    async def _fire(self, partition: int, due: Due, each: DueSchedule) -> str:
        try:
            schedule = each.read()
            decided = plan(schedule, each.slot_ms, due.now_ms)
        except ValueError as error:  # of a newer version, or this machine's tz database lacks its zone
            log.error("schedule cannot be read here", schedule=each.name, error=str(error))
            return "unread"
        facts = self._facts_of(schedule)
        fired = await fire_slots(self._store, partition, each, schedule=schedule, plan=decided, facts=facts)
        if fired.verdict != "moved":
            self._tell(schedule, fired, missed=decided.missed, lane=facts.lane)
        return fired.verdict

    def _tell(self, schedule: Schedule, fired: Fired, *, missed: int, lane: str) -> None:
        for job_id in fired.job_ids:
            log.debug("schedule fired", schedule=schedule.name, job_id=job_id)
            self._fired(schedule, job_id, lane)
        if missed:
            log.warning("schedule missed slots", schedule=schedule.name, missed=missed, catch_up=schedule.catch_up)
        if fired.overlapped:
            log.info("slot skipped: the job before is not finished", schedule=schedule.name, slots=fired.overlapped)
        if fired.verdict == "full":
            log.warning("schedule waits: its lane is full", schedule=schedule.name, lane=lane)

"""The schedule loops: what the configuration file defines is registered, and slots fire as they come due.

Every dispatcher runs them. Of all that find a slot due one fires it, and the others find it gone, which is no fault.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from gateway.dispatch.failures import first_failure
from gateway.errors import StoreError, StoreMismatch, StoreUnavailable, WrongState
from gateway.schedules import JobFacts, Schedule, plan
from gateway.store import Store
from gateway.store.schedules import (
    Standing,
    every_schedule,
    home_of,
    move_schedule,
    name_schedules,
    put_schedule,
    remove_copy,
)
from gateway.store.slots import Due, DueSchedule, Fired, due_schedules, fire_slots

log = structlog.get_logger(__name__)

DUE_MOST = 50
LOOKED_AT_MOST = 10_000
"""Due schedules that are looked at where none of those before could fire."""

POLL_S = (0.5, 1.0)
"""Between these, at random: how soon a new or resumed schedule is seen."""

NAME_S = 8.0
"""How often a dispatcher says which schedules its file defines."""

UNNAMED_S = 30.0
"""A schedule of a file is removed once no dispatcher has said so for that long."""

_RETRY_S = (0.25, 2.0)
_LEAST_S = 0.005


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Fires the schedules of a store. `facts_of` says what their jobs take from their targets; `fired` is told of
    every job that was made here, by its schedule, id and lane."""

    store: Store
    configured: Mapping[str, Schedule]
    facts_of: Callable[[Schedule], JobFacts]
    fired: Callable[[Schedule, str, str], None]
    rng: random.Random
    _lost: asyncio.Event = field(default_factory=asyncio.Event)
    _strange: list[Standing] = field(default_factory=list)

    def register_again(self) -> None:
        """Redis has lost what was registered: it is registered once more."""
        self._lost.set()

    async def run(self) -> None:
        """Registers what is configured, then fires what is due, until cancelled; raises StoreMismatch."""
        await self._register()
        log.info("scheduler started", schedules=len(self.configured))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_registered())
                group.create_task(self._keep_named())
                for partition in range(self.store.partitions):
                    group.create_task(self._keep_firing(partition))
        except ExceptionGroup as failures:
            raise first_failure(failures) from failures
        finally:
            log.info("scheduler stopped")

    async def _keep_registered(self) -> None:
        while True:
            await self._lost.wait()
            self._lost.clear()
            await self._register()

    async def leave(self) -> None:
        """This dispatcher's file defines nothing any more; raises StoreError."""
        await name_schedules(self.store, self.configured.values(), at_work=False)

    async def _keep_named(self) -> None:
        while True:
            await asyncio.sleep(NAME_S * self.rng.uniform(0.5, 1.0))
            try:
                missing = await name_schedules(self.store, self.configured.values(), at_work=True)
                for name in missing:
                    log.warning("schedule was removed; it is defined anew, as this file has it", schedule=name)
                    await _put(self.store, self.configured[name])
                self._strange[:] = await remove_unnamed(self.store, self._strange, unnamed_s=UNNAMED_S)
            except StoreMismatch:
                raise
            except StoreError as error:
                log.warning("schedules not looked after", error=str(error))

    async def _register(self) -> None:
        delay_s = _RETRY_S[0]
        while True:
            try:
                self._strange[:] = await register(self.store, self.configured, unnamed_s=UNNAMED_S)
                for each in self._strange:
                    log.warning(
                        "schedule is not in this dispatcher's file, but in another's: it stays",
                        schedule=each.schedule.name,
                    )
                return
            except StoreUnavailable as error:
                log.warning("schedules not registered", error=str(error), retry_in_s=round(delay_s, 2))
            except StoreMismatch:
                raise
            except StoreError as error:  # repeating it would not help, and what is there already can fire
                log.error("schedules not registered", error=str(error))
                return
            await asyncio.sleep(delay_s * self.rng.uniform(0.5, 1.5))
            delay_s = min(_RETRY_S[1], delay_s * 2)

    async def _keep_firing(self, partition: int) -> None:
        delay_s = _RETRY_S[0]
        while True:
            try:
                wait_s = await self.fire_due(partition)
                delay_s = _RETRY_S[0]
            except StoreMismatch:
                raise
            except StoreError as error:
                log.warning("schedules wait", partition=partition, error=str(error), retry_in_s=round(delay_s, 2))
                wait_s = delay_s * self.rng.uniform(0.5, 1.5)
                delay_s = min(_RETRY_S[1], delay_s * 2)
            await asyncio.sleep(wait_s)

    async def fire_due(self, partition: int) -> float:
        """Fires what is due in a partition now; seconds until it should be looked at again. Raises StoreError."""
        seen, most = 0, DUE_MOST
        while True:
            due = await due_schedules(self.store, partition, most=most)
            verdicts = [await self._fire(partition, due, each) for each in due.schedules[seen:]]
            if "fired" in verdicts:
                return 0.0  # there may be more, and what fired waits for its next slot now
            if len(due.schedules) < most or most > LOOKED_AT_MOST:
                break
            # none of these could: a full lane, or a definition that is not for this process, stands before the others
            seen, most = most, most * 4
        poll_s = self.rng.uniform(*POLL_S)
        return poll_s if due.later_ms is None else min(poll_s, max(_LEAST_S, due.later_ms / 1000))

    async def _fire(self, partition: int, due: Due, each: DueSchedule) -> str:
        try:
            schedule = each.read()
            decided = plan(schedule, each.slot_ms, due.now_ms)
        except ValueError as error:  # of a newer version, or this machine's tz database lacks its zone
            log.error("schedule cannot be read here", schedule=each.name, error=str(error))
            return "unread"
        facts = self.facts_of(schedule)
        fired = await fire_slots(self.store, partition, each, schedule=schedule, plan=decided, facts=facts)
        if fired.verdict != "moved":
            self._tell(schedule, fired, missed=decided.missed, lane=facts.lane)
        return fired.verdict

    def _tell(self, schedule: Schedule, fired: Fired, *, missed: int, lane: str) -> None:
        for job_id in fired.job_ids:
            log.debug("schedule fired", schedule=schedule.name, job_id=job_id)
            self.fired(schedule, job_id, lane)
        if missed:
            log.warning("schedule missed slots", schedule=schedule.name, missed=missed, catch_up=schedule.catch_up)
        if fired.overlapped:
            log.info("slot skipped: the job before is not finished", schedule=schedule.name, slots=fired.overlapped)
        if fired.verdict == "full":
            log.warning("schedule waits: its lane is full", schedule=schedule.name, lane=lane)


async def register(store: Store, configured: Mapping[str, Schedule], *, unnamed_s: float = 0.0) -> Sequence[Standing]:
    """Makes the store's schedules those of the configuration file and of the API; repeating it changes nothing.

    What the file defines is put there, what it no longer defines is removed, and what the API defined is moved where
    its target's jobs lie now. Returns what stays, since within `unnamed_s` another dispatcher had it in its file: one
    that was started with a wrong configuration must not take the others' schedules away. Raises StoreError.
    """
    strange = []
    for each in await _one_of_each_name(store):
        if each.schedule.source == "file":
            if each.schedule.name not in configured:
                strange.append(each)
        elif each.schedule.name not in configured and home_of(store, each.schedule) != each.partition:
            await move_schedule(store, each)
    for schedule in configured.values():
        await _put(store, schedule)
    return await remove_unnamed(store, strange, unnamed_s=unnamed_s)


async def remove_unnamed(store: Store, strange: Sequence[Standing], *, unnamed_s: float) -> Sequence[Standing]:
    """Removes schedules that no dispatcher's file defines; the others. Raises StoreError."""
    left = []
    for each in strange:
        verdict = await remove_copy(store, each, whose="file", unnamed_ms=round(unnamed_s * 1000))
        if verdict == "named":
            left.append(each)
        elif verdict == "removed":
            log.warning("schedule removed: the file does not define it any more", schedule=each.schedule.name)
    return left


async def _put(store: Store, schedule: Schedule) -> None:
    try:
        await put_schedule(store, schedule, keep=True)
    except (ValueError, WrongState) as error:
        log.error("schedule not registered", schedule=schedule.name, error=str(error))


async def _one_of_each_name(store: Store) -> Sequence[Standing]:
    """Every schedule; of one that a broken change left in two partitions only the newer stays."""
    found: dict[str, Standing] = {}
    async for each in every_schedule(store):
        other = found.setdefault(each.schedule.name, each)
        if other is not each:
            older, newer = sorted((other, each), key=lambda copy: copy.updated_ms)
            found[each.schedule.name] = newer
            await remove_copy(store, older, whose="any")
    return list(found.values())

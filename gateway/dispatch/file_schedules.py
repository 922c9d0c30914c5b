"""The schedules of the configuration file: registered in Redis, and removed once no dispatcher's file has them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

import structlog

from gateway.errors import StoreError, StoreMismatch, StoreUnavailable, WrongState
from gateway.pauses import Pauses
from gateway.schedules import Schedule
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

log = structlog.get_logger(__name__)

NAME_S = 8.0
"""How often a dispatcher says which schedules its file defines."""

UNNAMED_S = 30.0
"""A schedule of a file is removed once no dispatcher has said so for that long."""

_RETRY_S = (0.25, 2.0)


class FileSchedules:
    """What one dispatcher's file defines; those of other files that it does not have are `strange` to it, and stay."""

    def __init__(self, store: Store, configured: Mapping[str, Schedule], *, rng: random.Random) -> None:
        self.configured = configured
        self._store = store
        self._rng = rng
        self._lost = asyncio.Event()
        self._strange: Sequence[Standing] = ()

    async def register(self) -> None:
        """Registers it, as soon as Redis is there; raises StoreMismatch."""
        pauses = Pauses(*_RETRY_S, rng=self._rng)
        while True:
            try:
                self._strange = await register(self._store, self.configured, unnamed_s=UNNAMED_S)
                for each in self._strange:
                    log.warning(
                        "schedule is not in this dispatcher's file, but in another's: it stays",
                        schedule=each.schedule.name,
                    )
                return
            except StoreUnavailable as error:
                pause_s = pauses.next_s()
                log.warning("schedules not registered", error=str(error), retry_in_s=round(pause_s, 2))
            except StoreMismatch:
                raise
            except StoreError as error:  # repeating it would not help, and what is there already can fire
                log.error("schedules not registered", error=str(error))
                return
            await asyncio.sleep(pause_s)

    async def keep_registered(self) -> None:
        """Registers it whenever Redis has lost it; runs until cancelled. Raises StoreMismatch."""
        while True:
            await self._lost.wait()
            self._lost.clear()
            await self.register()

    def register_again(self) -> None:
        """Redis has lost what was registered: it is registered once more."""
        self._lost.set()

    async def keep_named(self) -> None:
        """Says now and then what the file defines, and removes what no file does; runs until cancelled. Raises
        StoreMismatch."""
        while True:
            await asyncio.sleep(NAME_S * self._rng.uniform(0.5, 1.0))
            try:
                missing = await name_schedules(self._store, self.configured.values(), at_work=True)
                for name in missing:
                    log.warning("schedule was removed; it is defined anew, as this file has it", schedule=name)
                    await _put(self._store, self.configured[name])
                self._strange = await remove_unnamed(self._store, self._strange, unnamed_s=UNNAMED_S)
            except StoreMismatch:
                raise
            except StoreError as error:
                log.warning("schedules not looked after", error=str(error))

    async def leave(self) -> None:
        """This dispatcher's file defines nothing any more; raises StoreError."""
        await name_schedules(self._store, self.configured.values(), at_work=False)


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

"""Schedules in Redis: defined, looked up, paused, removed. Each lies in the partition of the jobs that it makes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from gateway.errors import NotFound, StoreError, WrongState
from gateway.jobs import NULL
from gateway.keys import hashed_partition
from gateway.schedules import Schedule, Slot, first_slot
from gateway.store.scripts import Arg
from gateway.store.store import Store

MOST = 10_000
"""Schedules of one partition, so that a client in a loop cannot fill Redis with them."""

_LIST_WIDTH = 14
_PAGE = 500
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Schedule)


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule as it stands; times in Unix ms, None where there is none (`slot_ms`: it is paused)."""

    schedule: Schedule
    partition: int
    revision: str
    slot_ms: int | None
    fires_ms: int | None
    created_ms: int
    updated_ms: int
    last_slot_ms: int | None
    job_id: str
    job_status: str
    fired: int
    missed: int
    overlapped: int

    @property
    def paused(self) -> bool:
        return self.slot_ms is None


def home_of(store: Store, schedule: Schedule) -> int:
    """The partition where a schedule belongs: that of its target's jobs, or one by its name."""
    pinned = store.pinned_partition(schedule.target, schedule.key)
    return hashed_partition(f"schedule:{schedule.name}", store.partitions) if pinned is None else pinned


async def put_schedule(
    store: Store, schedule: Schedule, *, keep: bool = False, slot: Slot | None = None
) -> Literal["created", "updated"]:
    """Defines a schedule by name, to wait for `slot`, or the first one from now. With `keep`, one that is defined just
    so stays as it is, paused or not.

    Raises WrongState where the configuration file defines it, or there are too many; ValueError if it never fires.
    """
    now_ms, standing = await _find(store, schedule.name)
    home = home_of(store, schedule)
    if schedule.source == "api" and any(each.schedule.source == "file" for each in standing):
        raise _file_owns(schedule.name)
    slot = slot or first_slot(schedule, now_ms)
    args: list[Arg] = [schedule.name, _encoder.encode(msgspec.structs.replace(schedule, payload=NULL))]
    args += [bytes(schedule.payload), secrets.token_hex(8), schedule.timing, schedule.source]
    args += [int(schedule.paused), slot.slot_ms, slot.at_ms, MOST, int(keep)]
    verdict = (await store.run("schedule_put", store.keyspaces[home], args)).decode()
    if verdict == "file":
        raise _file_owns(schedule.name)
    if verdict == "full":
        raise WrongState(f"there are {MOST} schedules already; delete some")
    for each in standing:
        if each.partition != home:  # its target, key or limits were others
            await store.run("schedule_remove", store.keyspaces[each.partition], [schedule.name, "any", 0])
    return "updated" if standing else "created"


async def find_schedule(store: Store, name: str) -> Standing:
    """The schedule of that name, with its payload; raises NotFound."""
    _, standing = await _find(store, name)
    if not standing:
        raise NotFound(f"no schedule named {name[:64]!r}")
    return standing[0]


async def list_schedules(store: Store, *, after: str = "", limit: int) -> list[Standing]:
    """Up to `limit` schedules after a name, by name, without their payloads."""
    pages = await store.everywhere("schedule_list", ["", after, limit])
    found = [each for partition, page in enumerate(pages) for each in _standing(partition, page)]
    return sorted(found, key=lambda each: each.schedule.name)[:limit]


async def every_schedule(store: Store) -> AsyncIterator[Standing]:
    """All of them, partition by partition, without their payloads."""
    for keyspace in store.keyspaces:
        after = ""
        while page := _standing(keyspace.partition, await store.run("schedule_list", keyspace, ["", after, _PAGE])):
            for each in page:
                yield each
            after = page[-1].schedule.name


async def remove_schedule(store: Store, name: str) -> None:
    """Removes a schedule that the API defined; raises NotFound, or WrongState where the configuration file did."""
    verdicts = await store.everywhere("schedule_remove", [name, "api", 0])
    if b"file" in verdicts:
        raise _file_owns(name)
    if b"removed" not in verdicts:
        raise NotFound(f"no schedule named {name[:64]!r}")


async def remove_copy(
    store: Store, standing: Standing, *, whose: Literal["file", "any"], unnamed_ms: int = 0
) -> Literal["removed", "file", "api", "named", "none"]:
    """Removes the schedule from the partition where it stands, if it still is whose it should be, and no dispatcher has
    said within `unnamed_ms` that its file defines it (`named`)."""
    args: list[Arg] = [standing.schedule.name, whose, unnamed_ms]
    verdict: Any = (await store.run("schedule_remove", store.keyspaces[standing.partition], args)).decode()
    return cast("Literal['removed', 'file', 'api', 'named', 'none']", verdict)


async def name_schedules(store: Store, schedules: Iterable[Schedule], *, at_work: bool) -> list[str]:
    """Says that a dispatcher at work has them in its file, or not any more: which of them are not there."""
    homes: dict[int, list[str]] = {}
    for each in schedules:
        homes.setdefault(home_of(store, each), []).append(each.name)
    missing: list[str] = []
    for partition, names in homes.items():
        for first in range(0, len(names), _PAGE):
            args: list[Arg] = [int(at_work), *names[first : first + _PAGE]]
            missing += [name.decode() for name in await store.run("schedule_named", store.keyspaces[partition], args)]
    return missing


async def move_schedule(store: Store, standing: Standing) -> None:
    """Moves a schedule where its target's jobs lie now, paused or with the slot that it waits for."""
    whole = await find_schedule(store, standing.schedule.name)
    schedule = msgspec.structs.replace(whole.schedule, paused=whole.paused)
    slot = None if whole.slot_ms is None else Slot(whole.slot_ms, whole.fires_ms or whole.slot_ms)
    await put_schedule(store, schedule, keep=True, slot=slot)


async def pause_schedule(store: Store, name: str) -> Standing:
    """Lets no slot of it fire; those until it is resumed are given up. Raises NotFound."""
    standing = await find_schedule(store, name)
    await store.run("schedule_pause", store.keyspaces[standing.partition], [name, 1, 0, 0])
    return await find_schedule(store, name)


async def resume_schedule(store: Store, name: str) -> Standing:
    """Lets a paused one go on with its next slot from now; raises NotFound."""
    now_ms, standing = await _find(store, name)
    for each in standing:
        slot = first_slot(each.schedule, now_ms)
        await store.run("schedule_pause", store.keyspaces[each.partition], [name, 0, slot.slot_ms, slot.at_ms])
    return await find_schedule(store, name)


def read_schedule(definition: bytes, payload: bytes) -> Schedule:
    """A schedule as it is kept; ValueError if this version cannot read it."""
    try:
        schedule = _decoder.decode(definition)
    except msgspec.MsgspecError as exc:
        raise ValueError(f"the definition cannot be read: {exc}") from exc
    return msgspec.structs.replace(schedule, payload=msgspec.Raw(payload or b"null"))


async def _find(store: Store, name: str) -> tuple[int, list[Standing]]:
    """The server's time, and the schedule; in two places only while it moves from one partition to another."""
    replies = await store.everywhere("schedule_list", [name, "", 1])
    found = [each for partition, reply in enumerate(replies) for each in _standing(partition, reply)]
    home_first = sorted(found, key=lambda each: each.partition != home_of(store, each.schedule))
    return max(reply[0] for reply in replies), home_first


def _standing(partition: int, reply: Sequence[Any]) -> list[Standing]:
    rows = [reply[i : i + _LIST_WIDTH] for i in range(1, len(reply), _LIST_WIDTH)]
    return [_stand(partition, *row[1:]) for row in rows]


def _stand(partition: int, definition: bytes, payload: bytes, revision: bytes, *rest: bytes) -> Standing:
    try:
        schedule = read_schedule(definition, payload)
    except ValueError as exc:
        raise StoreError("a schedule in Redis cannot be read: delete it, or upgrade this process") from exc
    slot, fires, created, updated, last, job_id, job_status, *counts = rest
    fired, missed, overlapped = (int(each or 0) for each in counts)
    return Standing(
        *(schedule, partition, revision.decode(), _ms(slot), _ms(fires), int(created), int(updated), _ms(last)),
        *(job_id.decode(), job_status.decode(), fired, missed, overlapped),
    )


def _ms(value: bytes) -> int | None:
    return int(float(value)) if value else None


def _file_owns(name: str) -> WrongState:
    return WrongState(f"schedule {name} is defined in the configuration file: change it there, and restart dispatchers")

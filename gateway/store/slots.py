"""Slots of schedules in Redis: what is due, fired once by whichever dispatcher comes first, and a job made at once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from gateway.errors import NotFound, StoreFull, StoreUnavailable, WrongState
from gateway.jobs import Options, pack_body
from gateway.keys import derived_id
from gateway.schedules import JobFacts, Plan, Schedule
from gateway.store.schedules import find_schedule, read_schedule
from gateway.store.scripts import Arg
from gateway.store.store import Store

_DUE_WIDTH = 5

Verdict = Literal["fired", "moved", "none", "full"]


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose slot is due; `definition` is read when it is used, so that a broken one harms no other."""

    name: str
    revision: str
    slot_ms: int
    definition: bytes
    payload: bytes

    def read(self) -> Schedule:
        """The schedule; ValueError if this version cannot read it."""
        return read_schedule(self.definition, self.payload)


@dataclass(frozen=True, slots=True)
class Due:
    """What is due in a partition at `now_ms`, and in how many ms something else will be (None: nothing waits)."""

    now_ms: int
    later_ms: int | None
    schedules: tuple[DueSchedule, ...]


@dataclass(frozen=True, slots=True)
class Fired:
    """What came of firing: the ids of the jobs made, and how many slots their predecessors stood in the way of."""

    verdict: Verdict
    job_ids: tuple[str, ...] = ()
    overlapped: int = 0


async def due_schedules(store: Store, partition: int, *, most: int) -> Due:
    """Up to `most` schedules of a partition whose slot is due."""
    now_ms, later_ms, *flat = await store.run("schedule_due", store.keyspaces[partition], [most])
    rows = [flat[i : i + _DUE_WIDTH] for i in range(0, len(flat), _DUE_WIDTH)]
    schedules = (DueSchedule(row[0].decode(), row[1].decode(), int(row[2]), row[3], row[4]) for row in rows)
    return Due(now_ms, None if later_ms < 0 else later_ms, tuple(schedules))


async def fire_slots(
    store: Store, partition: int, due: DueSchedule, *, schedule: Schedule, plan: Plan, facts: JobFacts
) -> Fired:
    """Carries out a plan, whole or not at all: `moved` if another dispatcher did, or the schedule is another now."""
    jobs = [(derived_id(f"schedule:{due.name}:{slot_ms}", slot_ms, partition), slot_ms) for slot_ms in plan.fire]
    args = _fire_args(store, schedule, due.revision, facts, jobs, slot=str(due.slot_ms), plan=plan)
    return _fired([job_id for job_id, _ in jobs], await store.run("schedule_fire", store.keyspaces[partition], args))


async def run_schedule(store: Store, name: str, facts_of: Callable[[Schedule], JobFacts]) -> tuple[str, Schedule]:
    """Makes a job of it now, paused or not: the job's id, and the schedule. Raises NotFound, WrongState if `overlap`
    is `forbid` and its last job is not finished, or StoreFull."""
    standing = await find_schedule(store, name)
    facts = facts_of(standing.schedule)
    now_ms = (await due_schedules(store, standing.partition, most=1)).now_ms
    job_id = derived_id(f"schedule:{name}:run:{secrets.token_hex(16)}", now_ms, standing.partition)
    args = _fire_args(store, standing.schedule, standing.revision, facts, [(job_id, now_ms)], slot="", plan=None)
    try:
        reply = await store.run("schedule_fire", store.keyspaces[standing.partition], args)
    except StoreUnavailable:  # safe to repeat: the job is found by its id
        reply = await store.run("schedule_fire", store.keyspaces[standing.partition], args)
    fired = _fired([job_id], reply)
    if fired.verdict == "none":
        raise NotFound(f"no schedule named {name[:64]!r}")
    if fired.verdict == "full":
        raise StoreFull(f"the lane {facts.lane} is full; nothing was queued")
    if fired.overlapped:
        raise WrongState(f"schedule {name}: its last job {standing.job_id} is not finished, and overlap is forbid")
    return job_id, standing.schedule


def _fire_args(
    store: Store,
    schedule: Schedule,
    revision: str,
    facts: JobFacts,
    jobs: Sequence[tuple[str, int]],
    *,
    slot: str,
    plan: Plan | None,
) -> list[Arg]:
    tags = (*schedule.tags, f"schedule:{schedule.name}")
    next_slot_ms, next_at_ms = (plan.next.slot_ms, plan.next.at_ms) if plan else (0, 0)
    return [
        *(schedule.name, revision, slot, next_slot_ms, next_at_ms, plan.missed if plan else 0, schedule.overlap),
        *(facts.lane, schedule.target, schedule.key, schedule.priority, facts.max_attempts),
        pack_body(Options(timeout=schedule.timeout, callback=facts.callback, tags=tags), bytes(schedule.payload)),
        msgspec.msgpack.encode(jobs),
        store.told(facts.callback),
    ]


def _fired(job_ids: Sequence[str], reply: Sequence[bytes]) -> Fired:
    verdicts = reply[1:]
    made = tuple(job_id for job_id, verdict in zip(job_ids, verdicts, strict=False) if verdict == b"accepted")
    return Fired(cast("Verdict", reply[0].decode()), made, verdicts.count(b"overlap"))

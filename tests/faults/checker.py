"""The checks of a history against what Redis says in the end: I1 to I7 of the fault matrix.

I1 every acknowledged job is there, in exactly one place; I2 no more attempts than allowed, and an effect of each that
succeeded; I3 the outcome is that of the last run that held the job; I4 an end is written once; I5 a callback is
delivered at least once, always under one id; I6 counters agree with what is stored; I7 nothing is left over.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import orjson
import redis

from gateway.errors import StoreError
from gateway.jobs import Record
from gateway.store import Store
from gateway.store.records import Entry
from gateway.store.repair import find_damage
from tests.faults.history import History
from tests.faults.stage import Stage
from tests.store.audit import audit
from tests.store.clock import Clock
from tests.store.site import LANES, Site
from tests.waiting import until_sync

QUIET_S = 90.0
RECORDED = ("work", "keyed", "ordered")
"""Targets whose runs write themselves down."""

ENDS = ("succeeded", "dead", "cancelled")


@dataclass(slots=True)
class Facts:
    """What the checks found; `breaches` names every broken invariant."""

    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    attempts_over: int = 0
    dead: int = 0
    breaches: list[str] = field(default_factory=list)

    def breach(self, invariant: str, detail: object) -> None:
        """Notes a breach; of many of one kind the first few are enough."""
        if sum(each.startswith(f"{invariant}:") for each in self.breaches) < 3:
            self.breaches.append(f"{invariant}: {detail}"[:600])


AUDITS = 5
"""An audit takes several looks, and retention may take jobs away between them: what is truly wrong stays so."""


def check(
    stage: Stage,
    *,
    lost_most: int = 0,
    unwritten: Collection[str] = (),
    forked: bool = False,
    timeout_s: float = QUIET_S,
) -> Facts:
    """Waits until all work is done, and checks everything.

    `lost_most`: acknowledged jobs that this fault may cost, beside those that are `unwritten`; `forked`: outcomes that
    were written may be gone.
    """
    forked = forked or lost_most > 0 or bool(unwritten)
    return asyncio.run(_check(stage, lost_most, unwritten, forked=forked, timeout_s=timeout_s))


async def _check(stage: Stage, lost_most: int, unwritten: Collection[str], *, forked: bool, timeout_s: float) -> Facts:
    place = stage.place
    store = await Store.open(place.url, partitions=place.partitions, lanes=LANES)
    try:
        facts = Facts()
        ids = [job_id for load in stage.loads for job_id in load.acknowledged]
        facts.acknowledged = len(ids)
        if len(set(ids)) != len(ids):
            facts.breach("I1", f"acknowledged twice: {[i for i, n in Counter(ids).items() if n > 1][:5]}")
        for load in stage.loads:
            if load.wrong:
                facts.breach("API", f"wrong answers: {load.wrong[:3]}")
        await _all_over(store, timeout_s, facts)
        found = await _records(store, ids)
        facts.lost = len(ids) - len(found)
        if not lost_most and not unwritten:
            await _check_submitted(store, facts)
        lost = set(ids) - found.keys() - set(unwritten)
        if len(lost) > lost_most:
            facts.breach("I1", f"{len(lost)} acknowledged jobs are lost: {sorted(lost)[:5]}")
        history = stage.history()
        _check_tags({job_id: tag for load in stage.loads for job_id, tag in load.tags.items()}, found, facts)
        _check_runs(history, found, facts, forked=forked)
        _check_ends(found, facts)
        _check_callbacks(history, found, facts, again=forked)
        await _check_store(store, facts)
        return facts
    finally:
        await store.aclose()


async def _check_submitted(store: Store, facts: Facts) -> None:
    """A job was taken in once, however often it was sent: as many as were acknowledged, callbacks aside."""
    counters = (await store.inspect()).counters
    taken = sum(
        count
        for name, count in counters.items()
        if name.startswith("submitted:") and not name.endswith(":gateway.callback")
    )
    if taken != facts.acknowledged:
        facts.breach("I1", f"{taken} jobs were taken in, {facts.acknowledged} acknowledged")


async def _all_over(store: Store, timeout_s: float, facts: Facts) -> None:
    """Returns once nothing waits and nothing runs."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    seen = await store.inspect()
                    waiting = any(each.pending for each in seen.lanes.values())
                    if not seen.running and not seen.due and not waiting and not seen.posted:
                        return
                except StoreError:
                    pass
                await asyncio.sleep(0.1)
    except TimeoutError:
        facts.breach("progress", f"work is left after {timeout_s:.0f} s: {await store.inspect()}")


Found = dict[str, tuple[Record, tuple[Entry, ...]]]


async def _records(store: Store, ids: Sequence[str]) -> Found:
    found: Found = {}
    for first in range(0, len(ids), 200):
        part = ids[first : first + 200]
        for job_id, one in zip(part, await store.find_many(part), strict=True):
            if one is not None:
                found[job_id] = (one.record, one.timeline)
    return found


def _check_tags(tags: Mapping[str, str], found: Found, facts: Facts) -> None:
    """Every producer was told the id of its own job, and every result is of it."""
    for job_id, tag in tags.items():
        record = found[job_id][0] if job_id in found else None
        if record is None:
            continue
        told = [orjson.loads(value).get("tag") for value in (record.payload, record.result) if value[:1] == b"{"]
        if any(each != tag for each in told):
            facts.breach("tagged", f"{job_id} was acknowledged for {tag}, it is of {told}")


def _check_runs(history: History, found: Found, facts: Facts, *, forked: bool) -> None:
    """`forked`: a primary that was replaced while it lived may have given jobs away that the other knows nothing of."""
    starts, ends, late = history.by_job("start"), history.by_job("end"), history.begun_late()
    for job_id, (record, _) in found.items():
        if record.attempts > record.max_attempts:
            facts.breach("I2", f"{job_id} has {record.attempts} attempts of {record.max_attempts}")
        facts.doubled += max(0, len(starts[job_id]) - record.attempts)
        if record.status != "succeeded":
            facts.dead += 1
        if record.status != "succeeded" or record.target not in RECORDED:
            continue
        if not ends[job_id]:
            facts.breach("I2", f"{job_id} succeeded and never ran to its end")
            continue
        result = orjson.loads(record.result) if record.result else {}
        runs = [event.run for event in starts[job_id]]
        if len(runs) > 1 and runs[-1] in late and runs[-1] != result.get("run"):
            del runs[-1]
        if result.get("run") != runs[-1] and not forked:
            facts.breach("I3", f"{job_id} has the outcome of {result}, its last run was {runs[-1]}")


def _check_ends(found: Found, facts: Facts) -> None:
    for job_id, (record, timeline) in found.items():
        if str(record.status) not in ENDS:
            facts.breach("I1", f"{job_id} is still {record.status}")
        ends = [entry.type for entry in timeline if entry.type in ENDS]
        if len(ends) != 1:
            facts.breach("I4", f"{job_id} ended {len(ends)} times: {ends}")


def _check_callbacks(history: History, found: Found, facts: Facts, *, again: bool) -> None:
    """`again`: an end that was written may have been lost, and then there is another, with a callback of its own."""
    delivered = history.by_job("callback")
    for job_id, (record, _) in found.items():
        if record.options.callback is None:
            continue
        if not delivered[job_id]:
            facts.breach("I5", f"no callback of {job_id}, which is {record.status}")
        elif len({event.run for event in delivered[job_id]}) > 1 and not again:
            facts.breach("I5", f"callbacks of {job_id} under several ids")


async def _check_store(store: Store, facts: Facts) -> None:
    damage = [each.sentence async for each in find_damage(store)]
    if damage:
        facts.breach("I6", f"the doctor finds {len(damage)} things: {damage[:3]}")
    for left in reversed(range(AUDITS)):
        try:
            return await audit(Site(store, Clock(store, 0), 0))
        except AssertionError as error:
            if not left:
                facts.breach("I6", f"{error!r} at {traceback.extract_tb(error.__traceback__)[-1].line}")


def check_end(stage: Stage, facts: Facts) -> None:
    """Stops everything in order: each process ends with 0, and no connection of theirs is left (I7)."""
    for process in [*stage.dispatchers, *([stage.api] if stage.api else [])]:
        if not process.ended and (code := process.stop(60)) != 0:
            facts.breach("I7", f"{process.log.name} ended with {code}: {process.log.read_text()[-500:]}")
    left = stage.installation.processes()
    if left:
        facts.breach("I7", f"processes are left: {left}")
    for server in stage.place.servers():
        with server.client() as client:
            try:
                until_sync(lambda client=client: _users(client) == 0, timeout_s=60)  # type: ignore[misc]
            except TimeoutError:
                facts.breach("I7", f"connections are left: {client.client_list()}")


def _users(client: redis.Redis) -> int:
    """Connections of ours, beside the one that asks."""
    own = client.client_id()
    return sum(
        each.get("lib-name", "").startswith("redis-py") and int(each["id"]) != own for each in client.client_list()
    )

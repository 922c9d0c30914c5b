"""A store with jobs in every state, and ways to damage it as lost keys, stray writes and other versions would."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from gateway.jobs import Outcome
from gateway.keys import JobIds
from gateway.store.scripts import run
from tests.store.site import LEASE_MS, Site

FLOWS: dict[str, dict[str, int]] = {
    "paced": {"interval": 20_000_000, "burst": 2},
    "narrow": {"concurrency": 2},
    "ordered": {"ordered": 1},
    "keyed": {"key_concurrency": 1, "key_interval": 5_000_000, "key_burst": 2},
    "paused": {"concurrency": 5, "paused": 1},
}
UNFINISHED = ("pending", "scheduled", "retrying", "running")


async def populate(site: Site, draw: random.Random) -> None:
    """Jobs in every state, of plain targets and of targets with flows, some of them running, held or out of tokens."""
    for target, fields in FLOWS.items():
        await run(site.store.client, "flow_control", site.prefix, [target, *_flat(fields)])
    worker = site.worker("holder")
    await site.put(3, lane="critical")
    await site.lose(worker, 2)
    for number in range(24):
        target = draw.choice(["resize", "mail", *FLOWS])
        key = draw.choice(["", "a", "b"]) if target != "resize" else ""
        delay_ms = draw.choice([0, 0, 0, 60_000]) if target != "ordered" else 0
        lane = draw.choice(["critical", "default", "low"]) if target != "ordered" else "default"
        await site.put(target=target, key=key, delay_ms=delay_ms, lane=lane, priority=draw.choice([0, 0, 5]))
        if number % 6 == 5:
            await site.put(lane="low", delay_ms=1)
            await site.clock.advance(1)  # and the next claim promotes it
            await _settle_some(site, draw)
    await site.claim(worker, draw.randrange(1, 6))
    waiting = [record.job_id for record in await site.records() if record.status == "scheduled"]
    for job_id in waiting[:1]:
        await site.store.cancel(job_id)


_FACTS: dict[Outcome, dict[str, Any]] = {
    "succeeded": {"result": "1"},
    "dead": {"reason": "fatal"},
    "retry": {"delay_ms": 30_000},
    "released": {},
}


async def _settle_some(site: Site, draw: random.Random) -> None:
    worker = site.worker("runner")
    for job in await site.claim(worker, 4, suspects=False):
        outcome = draw.choice(list(_FACTS))
        await site.settle(worker, job, outcome, **_FACTS[outcome])


def _flat(fields: dict[str, int]) -> list[str | int]:
    return [each for pair in fields.items() for each in pair]


class Damager:
    """Draws one damage after the other; `lost` holds the jobs that can no longer be what they were."""

    def __init__(self, site: Site, draw: random.Random, jobs: Sequence[tuple[str, str]]) -> None:
        self.site = site
        self.draw = draw
        self.jobs = list(jobs)
        self.lost: set[str] = set()
        self.done: list[str] = []
        self._ids = JobIds()

    async def strike(self) -> None:
        """One damage."""
        ways: list[Callable[[], Awaitable[str]]] = [
            self.lose_index, self.lose_entry, self.lose_entry, self.stray_entry, self.stray_entry, self.move_entry,
            self.lose_line, self.lose_body, self.garble_line, self.miscount, self.misstate, self.lose_key, self.leave,
        ]  # fmt: skip
        way = self.draw.choice(ways)
        self.done.append(f"{way.__name__}: {await way()}")

    async def _names(self, *families: str) -> list[str]:
        """Keys of some families, without their prefix, in an order that the seed alone decides."""
        prefix = self.site.prefix
        keys = [
            key.decode().removeprefix(prefix)
            async for key in self.site.store.client.scan_iter(match=prefix + "*", count=10_000)
        ]
        return sorted(key for key in keys if key.partition(":")[0] in families)

    async def _index(self) -> str:
        families = ("lane", "suspect", "flow", "due", "leases", "dead", "done", "ring", "heads", "flows")
        return self.draw.choice(await self._names(*families) or ["done"])

    async def _entries(self, index: str) -> list[bytes]:
        found: Any = await self.site.store.client.zrange(self._key(index), 0, -1)
        return list(found)

    async def _fields(self, name: str) -> list[str]:
        found: Any = await self.site.store.client.hkeys(self._key(name))
        return sorted(field.decode() for field in found)

    def _key(self, name: str) -> str:
        return self.site.prefix + name

    async def lose_index(self) -> str:
        index = await self._index()
        await self.site.store.client.delete(self._key(index))
        return index

    async def lose_entry(self) -> str:
        index = await self._index()
        entry = self.draw.choice(await self._entries(index) or [b""])
        await self.site.store.client.zrem(self._key(index), entry)
        return f"{index} {entry!r}"

    async def stray_entry(self) -> str:
        """A job in one index more, or an entry that is no job at all."""
        index = self.draw.choice(await self._names("lane", "suspect", "flow", "due", "leases", "done") or ["due"])
        strangers = ["~nobody", "~paced:gone"] if index == "done" else [self._ids.new(1, 0), "~nobody", "~paced:gone"]
        # a job that waits for its first attempt says so by saying nothing: in `done` it would look as if it had ended
        stated = await self._fields("state")
        jobs = [job_id for job_id, _ in self.jobs if index != "done" or job_id in stated]
        entry = self.draw.choice([*jobs, *strangers])
        score = self.draw.choice([0, 100 * 2**45 + 1])
        await self.site.store.client.zadd(self._key(index), {entry: score}, nx=True)
        return f"{index} {entry}"

    async def move_entry(self) -> str:
        index = self.draw.choice(await self._names("lane", "flow", "ring", "heads", "suspect") or ["lane:low"])
        if entries := await self._entries(index):
            await self.site.store.client.zadd(self._key(index), {self.draw.choice(entries): 7})
        return index

    def _job(self, among: Collection[str] | None = None) -> str:
        """An unfinished job that has not been damaged beyond what it was."""
        left = [job_id for job_id, status in self.jobs if status in UNFINISHED and job_id not in self.lost]
        if among is not None:
            left = [job_id for job_id in left if job_id in among]
        job_id = self.draw.choice(left)
        self.lost.add(job_id)
        return job_id

    async def lose_line(self) -> str:
        """Of an unfinished job which is in its index still: of another, nobody could tell whether it had ended."""
        if self.done:
            return "not after other damage"
        job_id = self._job()
        await self.site.store.client.hdel(self._key("state"), job_id)
        return job_id

    async def lose_body(self) -> str:
        """Of a job that says elsewhere what it is; one that waits for its first attempt is all body."""
        there: dict[Any, Any] = await self.site.store.client.hgetall(self._key("state"))
        lines = sorted(job_id.decode() for job_id, line in there.items() if not line.startswith(b"pending||0||||="))
        if not any(job_id in lines and job_id not in self.lost and s in UNFINISHED for job_id, s in self.jobs):
            return "there is none"
        job_id = self._job(lines)
        await self.site.store.client.delete(self._key(f"b:{job_id}"))
        return job_id

    async def garble_line(self) -> str:
        if self.done:
            return "not after other damage"
        job_id = self._job()
        line = self.draw.choice(["", "nonsense", "running|", "retrying|1:d.1|1|x|y", "gone||0||||||"])
        await self.site.store.client.hset(self._key("state"), job_id, line)
        return f"{job_id} {line}"

    async def miscount(self) -> str:
        client = self.site.store.client
        name = self.draw.choice(["waiting", "seq", *await self._names("ft", "fk")])
        if name == "seq":
            await client.delete(self._key("seq"))
        elif name == "waiting":
            field = self.draw.choice([*await self._fields("waiting"), "low:nobody"])
            await client.hset(self._key("waiting"), field, self.draw.choice([-3, 1, 70]))
        else:
            await client.hset(self._key(name), "running", self.draw.choice([0, 1, 9]))
        return name

    async def misstate(self) -> str:
        name = self.draw.choice(await self._names("ft", "fk"))
        field, value = self.draw.choice(
            [("blocked", "0"), ("blocked", "1"), ("lanes", ""), ("lanes", ",low,"), ("timer", "1"), ("held", "nobody")]
        )
        if name.startswith("fk") or field != "held":
            await self.site.store.client.hset(self._key(name), field, value)
        return f"{name} {field} {value}"

    async def lose_key(self) -> str:
        name = self.draw.choice([*await self._names("fk"), "waiting", "idle", "dispatchers"])
        await self.site.store.client.delete(self._key(name))
        return name

    async def leave(self) -> str:
        name = f"{self.draw.choice('re')}:{self._ids.new(1, 0)}"
        await self.site.store.client.set(self._key(name), "{}\n")
        return name


async def work_off(site: Site) -> None:
    """Runs everything that can be run, until nothing is left."""
    await run(site.store.client, "flow_control", site.prefix, ["paused", "paused", 0])
    worker = site.worker("finisher")
    for _ in range(120):
        await site.clock.advance(2 * LEASE_MS)
        await worker.reap(1000, max_stalls=100)
        for job in await site.claim(worker, 50):
            await site.settle(worker, job, "succeeded")
        if not any(record.status in UNFINISHED for record in await site.records()):
            return
    raise AssertionError(f"never ended: {[r for r in await site.records() if r.status in UNFINISHED]}")

"""Finds, and mends, what a damaged Redis has left: keys that were evicted or deleted, entries that belong nowhere.

It may run beside gateways and dispatchers at work: what is looked at in one script call is looked at as it stands at
that instant, and mended in the same call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from gateway.keys import Keyspace
from gateway.store.refusals import answered
from gateway.store.scripts import Arg
from gateway.store.store import Store

JOBS = 200
"""Jobs, or entries of an index, that one script call looks at: a few milliseconds of the server."""

LOOK_MOST = 20_000
"""Jobs of a lane, and running jobs, that can be counted in one call while others work: about 100 ms of the server."""

SENTENCES = {
    "unplaced": "{0} is not in {1}, where it must be",
    "misranked": "{0} stands at the wrong place in {1}",
    "misplaced": "{0} is in {1}, where it must not be",
    "state_lost": "{0} no longer says where it stands: it is {1} by its index",
    "lane_unknown": "{0} is in a lane that nobody looks at: {1}",
    "seq_behind": "the rank sequence is behind that of {0}, {1}",
    "payload_lost": "{0} has lost its payload: where it waits to be run, it goes to the dead-letter queue",
    "no_record": "{0} is in {1}, and there is no such job",
    "remains": "something is left of {0}, which is gone",
    "reference_stray": "{1} refers to flows that do not exist: {0}",
    "flow_stray": "{1} is left of flows of {0}, which has none",
    "running_wrong": "the count of running jobs of {0} is {1}",
    "timer_lost": "{0} waits for a timer that is gone",
    "held_wrong": "{0} is held for {1}, which is no retry of it",
    "blocked_wrong": "the state of {0} is wrong ({1})",
    "queue_listed_wrong": "the queue of {0} is listed wrongly in {1}",
    "lanes_wrong": "{0} says wrongly whether it waits in {1}",
    "turn_wrong": "the turn of {0} in {1} is wrong",
    "reference_wrong": "the place of {0} in {1} is wrong",
    "suspects_wrong": "the reference to the suspects of {0} is wrong",
    "waiting_wrong": "the count of jobs that wait in {0} is {1}",
    "state_miscounted": "the count of {0} is {1}",
    "uncounted": "there are too many {1} to count those of {0} while others work: stop gateways and dispatchers, "
    "and run this with --stopped",
}
"""What each word of the scripts means; 0 is whose, 1 what of it."""

_INDEXES = ("lane", "suspect", "flow", "due", "leases", "dead", "done")
_findings = msgspec.msgpack.Decoder(list[tuple[str, str, str]])


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong: a word of `SENTENCES`, and the sentence."""

    word: str
    sentence: str

    @property
    def known(self) -> bool:
        """Whether it could be looked at at all."""
        return self.word != "uncounted"


async def find_damage(store: Store, *, mend: bool = False, look_most: int = LOOK_MOST) -> AsyncIterator[Damage]:
    """Everything that is wrong in the data, mended as it is found if `mend`; raises StoreError.

    `look_most` bounds how many jobs one script call counts: more than `LOOK_MOST` only while nobody else works.
    """
    for keyspace in store.keyspaces:
        found = _Partition(store, keyspace, mend, look_most)
        for part in (found.jobs(), found.indexes(), found.remains(), found.flows(), found.lanes(), found.states()):
            async for damage in part:
                yield damage


@dataclass(frozen=True, slots=True)
class _Partition:
    """One partition under repair; its parts must be looked at in this order, since each trusts what came before."""

    store: Store
    keyspace: Keyspace
    mend: bool
    look_most: int

    async def jobs(self) -> AsyncIterator[Damage]:
        """Every record, and whether its job is where it says."""
        async for names in self._scan("b:*"):
            async for damage in self._call("repair_jobs", [name[2:] for name in names]):
                yield damage

    async def indexes(self) -> AsyncIterator[Damage]:
        """Every entry of every index, and whether it belongs there."""
        async for names in self._scan("*", kind="zset"):
            for name in names:
                if name.partition(":")[0] in _INDEXES:
                    async for entries in self._entries(name):
                        async for damage in self._call("repair_index", [name, *entries]):
                            yield damage

    async def remains(self) -> AsyncIterator[Damage]:
        """Lines, results and logs of jobs whose body is gone."""
        async for ids in self._ids_of_parts():
            gone = [] if await self._exist(ids) else [job_id for job_id in ids if not await self._exist([job_id])]
            async for damage in self._call("repair_jobs", gone):
                yield damage

    async def _ids_of_parts(self) -> AsyncIterator[list[str]]:
        async for names in self._scan("[jre]:*"):
            yield list(dict.fromkeys(name[2:] for name in names))
        cursor = 0
        while True:
            cursor, lines = await answered(
                self.store.client.hscan(f"{self.keyspace.prefix}state", cursor, count=JOBS, no_values=True)
            )
            ids = [job_id for line in lines if (job_id := cast("bytes", line).decode()) != "~"]
            for first in range(0, len(ids), JOBS):
                yield ids[first : first + JOBS]
            if cursor == 0:
                return

    async def flows(self) -> AsyncIterator[Damage]:
        """Every key of every target with flows, then the target."""
        for target, keys in (await self._keys_of_targets()).items():
            listed = sorted(keys)
            for first in range(0, len(listed), JOBS):
                args = [str(self.look_most), target, *listed[first : first + JOBS]]
                async for damage in self._call("repair_flows", args):
                    yield damage
            async for damage in self._call("repair_flows", [str(self.look_most), target]):
                yield damage

    async def lanes(self) -> AsyncIterator[Damage]:
        """What each lane counts."""
        lanes = set(self.store.lanes)
        async for names in self._scan("*", kind="zset"):
            lanes.update(name.split(":")[1] for name in names if name.startswith(("lane:", "suspect:", "flows:")))
        counted = await answered(self.store.client.hkeys(f"{self.keyspace.prefix}waiting"))
        lanes.update(cast("bytes", field).decode().partition(":")[0] for field in counted)
        for lane in sorted(lanes):
            async for damage in self._call("repair_lane", [str(self.look_most), lane]):
                yield damage

    async def states(self) -> AsyncIterator[Damage]:
        """How many jobs of each lane are scheduled, retrying and dead."""
        async for damage in self._call("repair_states", [str(self.look_most)]):
            yield damage

    async def _exist(self, ids: Sequence[str]) -> bool:
        """Whether every one of these jobs has a body."""
        records = [f"{self.keyspace.prefix}b:{job_id}" for job_id in ids]
        return bool(await answered(self.store.client.exists(*records)) == len(ids))

    async def _call(self, script: str, args: Sequence[str]) -> AsyncIterator[Damage]:
        if not args:
            return
        values: list[Arg] = ["1" if self.mend else "0", *args]
        reply = await self.store.run(script, self.keyspace, values)
        for word, whose, what in _findings.decode(reply):
            yield Damage(word, SENTENCES[word].format(whose, what))

    async def _keys_of_targets(self) -> dict[str, set[str]]:
        """The keys of each target with flows, wherever one of them is named."""
        found: dict[str, set[str]] = {}
        async for names in self._scan("f*"):
            for name in names:
                kind, _, rest = name.partition(":")
                if kind == "ft":
                    found.setdefault(rest, set())
                elif kind in ("fk", "flow", "flows"):
                    for path in await self._paths(name, kind, rest):
                        target, _, key = path.partition(":")
                        found.setdefault(target, set()).add(key)
        for kind in ("ring", "heads"):
            async for names in self._scan(f"{kind}:*"):
                for name in names:
                    target = name.split(":", 2)[2]
                    async for keys in self._entries(name):
                        found.setdefault(target, set()).update(keys)
        return found

    async def _paths(self, name: str, kind: str, rest: str) -> list[str]:
        if kind == "flows":
            return [entry async for entries in self._entries(name) for entry in entries]
        return [rest if kind == "fk" else rest.partition(":")[2]]

    async def _scan(self, pattern: str, *, kind: str | None = None) -> AsyncIterator[list[str]]:
        """The names of keys, without their prefix, in lists of a bounded length."""
        prefix = self.keyspace.prefix
        server = await answered(self.store.client.server_of(prefix))
        cursor = 0
        while True:
            cursor, keys = await answered(server.scan(cursor, match=prefix + pattern, count=1000, _type=kind))
            names = [cast("bytes", key).decode().removeprefix(prefix) for key in keys]
            for first in range(0, len(names), JOBS):
                yield names[first : first + JOBS]
            if cursor == 0:
                return

    async def _entries(self, name: str) -> AsyncIterator[list[str]]:
        cursor = 0
        while True:
            cursor, pairs = await answered(self.store.client.zscan(self.keyspace.prefix + name, cursor, count=JOBS))
            entries = [cast("bytes", entry).decode() for entry, _ in pairs]
            for first in range(0, len(entries), JOBS):
                yield entries[first : first + JOBS]
            if cursor == 0:
                return

"""The store as gateways and commands see it: submit, look up, list, cancel, replay, inspect."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, cast

from gateway.errors import NotFound, StoreError, StoreMismatch, StoreUnavailable, WrongState
from gateway.jobs import Callback, Submission, Submitted
from gateway.keys import Keyspace, partition_of
from gateway.secret import Secret
from gateway.signing import SigningKey
from gateway.store.asking import each_of
from gateway.store.client import Client
from gateway.store.connection import connect
from gateway.store.durability import Durability
from gateway.store.fitness import Remark, examine
from gateway.store.inspection import Inspection, read_inspection
from gateway.store.places import Places
from gateway.store.records import Found, parse_lookup
from gateway.store.refusals import answered
from gateway.store.scripts import Arg, run
from gateway.store.signing_keys import MOST_OLD_KEYS, SigningKeys
from gateway.store.submit_call import event_codes
from gateway.store.submits import Submits

SCHEMA = 1


class Store:
    """One installation's data: `partitions` keyspaces under one namespace. Close it with `aclose()`."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        partitions: int,
        lanes: Sequence[str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self.client = client
        self.lanes = tuple(lanes)
        self.partitions = partitions
        self.keyspaces = tuple(Keyspace(namespace, partition) for partition in range(partitions))
        self._places = Places(partitions)
        self._submits = Submits(client, self.keyspaces, self._places)
        self.new_id, self.ask = self._places.new_id, self._submits.ask  # themselves, since each job takes both
        self._signing_keys = SigningKeys(client, self.keyspaces[0], clock=clock)
        self._rules = ("", "")
        self._notices: tuple[str, str, int] | None = None
        self._expects_notices = False
        self._epochs: list[bytes] = []
        self.remarks: list[Remark] = []

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        namespace: str = "default",
        partitions: int = 1,
        lanes: Sequence[str] = ("default",),
        flows: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    ) -> Store:
        """Connects, and checks that the server and the data in it fit; raises StoreError if they do not."""
        store = cls(connect(url), namespace=namespace, partitions=partitions, lanes=lanes)
        store.expect_flows(flows)
        try:
            await store.configure()
        except BaseException:
            await store.aclose()
            raise
        return store

    async def aclose(self) -> None:
        """Waits for submits under way and drops the connections."""
        await self._submits.aclose()
        await self.client.aclose()

    def expect_flows(self, flows: Mapping[str, Mapping[str, int]]) -> None:
        """Which targets have flows, with what limits (`gateway.limits.flow_fields`); `configure` registers them."""
        self._places.expect(flows)

    def expect_notices(self, notices: tuple[str, str, int] | None) -> None:
        """Which target is told of disabled ones, its lane and its attempts; `configure` writes it."""
        self._notices, self._expects_notices = notices, True

    def expect_rules(self, *, dead_most: int, lane_caps: Mapping[str, int]) -> None:
        """How many dead jobs of each target are kept, and how many pending ones a lane takes; `configure` writes it."""
        self._rules = (str(dead_most), ",".join(f"{lane}={most}" for lane, most in lane_caps.items()) or "-")

    def expect_durability(self, durability: Durability, *, replicas: int) -> None:
        """What a submit must have reached before it returns, where the call itself says nothing else."""
        self._submits.durability, self._submits.replicas = durability, replicas

    async def configure(self) -> None:
        """Refuses a server that must not hold jobs, and data of another schema or partition count.

        What else is to be said of the servers is in `remarks` then.
        """
        await self._examine()
        await self.register()

    async def check(self) -> None:
        """As `configure`, which raises the same; registers no limits, and makes no key."""
        await self._examine()
        await each_of(self.keyspaces, lambda keyspace: self._configure(keyspace, ""))

    async def register(self) -> None:
        """Registers lanes, rules and limits, and keeps our signing key if there is none: then claims take jobs.

        Raises StoreMismatch where the data is of another schema or partition count.
        """
        present = self.signing_keys
        candidate = present[0] if present else SigningKey.generate()
        # the control partition first: where the data does not fit, no other one is touched
        await self._configure(self.control, candidate.reveal())
        await each_of(self.keyspaces[1:], lambda keyspace: self._configure(keyspace, ""))
        await self.read_signing_keys()
        if self._expects_notices:
            target, lane, most = self._notices or ("", "", 1)
            pinned = self.pinned_partition(target)
            place = "" if pinned is None else f"{pinned:02x}"
            await self.everywhere("notices", [target, lane, most, place])
        for target, fields in self._places.flows():
            await self.control_flow(target, fields)
        self._epochs = await self.everywhere("register", [secrets.token_hex(8)])

    async def is_registered(self, partition: int) -> bool:
        """Whether a partition's data is what this process registered in, if it has yet. Raises StoreError."""
        if not self._epochs:
            return True
        epoch = self.client.hget(self.keyspaces[partition].conf, "epoch")
        return bool(await answered(cast("Any", epoch)) == self._epochs[partition])

    @property
    def signing_keys(self) -> tuple[Secret, ...]:
        """The installation's own signing keys (`whsk_…`), the present one first; none before the data is configured."""
        return self._signing_keys.present

    async def read_signing_keys(self) -> None:
        """Takes over a key that was made elsewhere since."""
        await self._signing_keys.read()

    async def rotate_signing_key(self, key: SigningKey, *, stays_ms: int) -> None:
        """Makes this the installation's key; the one until now signs as well for so long. Raises StoreError."""
        await self._repeatable("signing_rotate", self.control, [key.reveal(), stays_ms, MOST_OLD_KEYS])
        await self._signing_keys.read()

    async def control_lane(self, lane: str, *, paused: bool) -> None:
        """Pauses a lane, or lets it go on; raises NotFound if there never was such a lane."""
        if 0 in await self.everywhere("lane_control", [lane, int(paused)]):
            raise NotFound(f"no lane named {lane[:64]!r}; known: {', '.join(self.lanes)}")

    async def control_flow(self, target: str, fields: Mapping[str, int]) -> None:
        """Changes limits, pause or breaker of a target; waiting jobs see it at once."""
        self._places.learn(target, fields)
        args: list[Arg] = [target]
        for name, value in fields.items():
            args += (name, value)
        keyspaces = [self.keyspaces[partition] for partition in self._places.of_flow(target)]
        await each_of(keyspaces, lambda keyspace: self.run("flow_control", keyspace, args))

    def limit_partitions(self, target: str) -> Sequence[int]:
        """Those that count the limits of a target with flows."""
        return self._places.of_flow(target)

    def has_flow(self, target: str, fields: Mapping[str, int]) -> bool:
        """Whether a target's flow was last registered here with just these limits."""
        return self._places.has_flow(target, fields)

    def told(self, callback: Callback | None) -> str:
        """What a job's record has of its callback, as scripts take it."""
        return "" if callback is None else event_codes(callback) + self._places.of_callback(callback)

    def pinned_partition(self, target: str, key: str = "") -> int | None:
        """The one partition of a target's jobs with that key; None if they may lie in any."""
        return self._places.pinned(target, key)

    async def submit(
        self, jobs: Sequence[Submission], durability: Durability | None = None, *, until_s: float | None = None
    ) -> list[Submitted]:
        """Takes jobs in, each whole or not at all, all of one partition in one script call.

        `until_s`, by `monotonic`, is until when it may take, for callers without a timer of their own. Raises StoreFull
        (nothing written), StoreUnavailable (what was written is not known) or StoreShort (written, and not yet as
        durable as it should be); after these two repeat with the same ids or idempotency keys.
        """
        return await self._submits.submit(jobs, durability, until_s=until_s)

    async def submit_together(self, jobs: Sequence[Submission], *, until_s: float | None = None) -> list[Submitted]:
        """Takes jobs in, all of them or none in one step, wherever they lie; those of other partitions than the first
        one's are handed over by a dispatcher. Takes and raises what `submit` does."""
        return await self._submits.together(jobs, until_s=until_s)

    async def find(self, job_id: str) -> Found:
        """The record and timeline of a job; raises NotFound."""
        found = (await self.find_many([job_id]))[0]
        if found is None:
            raise NotFound(f"no job with the id {job_id!r}")
        return await self._with_callback(found)

    async def find_many(self, job_ids: Sequence[str], *, short: bool = False) -> list[Found | None]:
        """The records of many jobs, in order; None where there is none. `short`: without payload and result."""
        groups = self.by_partition(job_ids)
        found: dict[str, Found | None] = {}

        async def look_up(keyspace: Keyspace) -> None:
            ids = groups[keyspace]
            reply = await self.run("lookup", keyspace, ["short" if short else "whole", *ids])
            found.update(zip(ids, parse_lookup(ids, reply), strict=True))

        await each_of(list(groups), look_up)
        return [found[job_id] for job_id in job_ids]

    async def cancel(self, job_id: str) -> Literal["cancelled", "asked"]:
        """Cancels a waiting job at once, asks for it where it runs; raises NotFound, or WrongState if it is over."""
        args = [job_id, secrets.token_hex(8)]
        verdict: str = (await self._repeatable("cancel", self.keyspace_of(job_id), args)).decode()
        if verdict == "none":
            raise NotFound(f"no job with the id {job_id!r}")
        if verdict == "over":
            raise WrongState(f"job {job_id} is over already")
        return "asked" if verdict == "asked" else "cancelled"

    async def replay(self, job_id: str, *, max_attempts: int = 0) -> None:
        """Sends a dead job back to its lane, with as many attempts as before or `max_attempts` of them.

        Raises NotFound, or WrongState if it is not dead.
        """
        args: list[Arg] = [secrets.token_hex(8), max_attempts, job_id]
        verdict = (await self._repeatable("replay", self.keyspace_of(job_id), args))[0].decode()
        if verdict == "none":
            raise NotFound(f"no job with the id {job_id!r}")
        if verdict == "not_dead":
            raise WrongState(f"job {job_id} is not dead, so there is nothing to retry")

    async def inspect(self) -> Inspection:
        """Counts, ages and the exact counters of the whole installation."""
        return read_inspection(await self.everywhere("inspect", list(self.lanes)), list(self.lanes))

    async def probe(self) -> None:
        """Raises StoreError if half of the partitions, or more, do not take a script that writes."""
        await self.mostly("configure", [self.partitions, "", "", "", *self.lanes])

    @property
    def control(self) -> Keyspace:
        """The control partition, where lies what concerns the installation as a whole."""
        return self.keyspaces[0]

    def keyspace_of(self, job_id: str) -> Keyspace:
        """Where a job lies; raises NotFound if it is no job id."""
        return self.keyspaces[partition_of(job_id, self.partitions)]

    def by_partition(self, job_ids: Iterable[str]) -> dict[Keyspace, list[str]]:
        """Jobs by where they lie, in order; raises NotFound for what is no job id."""
        groups: dict[Keyspace, list[str]] = {}
        for job_id in job_ids:
            groups.setdefault(self.keyspace_of(job_id), []).append(job_id)
        return groups

    async def run(self, name: str, keyspace: Keyspace, args: Sequence[Arg]) -> Any:
        """Calls a script in one partition; raises StoreError."""
        return await run(self.client, name, keyspace.prefix, args)

    async def everywhere(self, name: str, args: Sequence[Arg]) -> list[Any]:
        """Calls a script in every partition: the replies, in order; raises StoreError if one of them fails."""
        return await each_of(self.keyspaces, lambda keyspace: self.run(name, keyspace, args))

    async def mostly(self, name: str, args: Sequence[Arg]) -> list[Any]:
        """Calls a script in every partition: the replies of those that answer; raises StoreError if half of them do
        not. One server of a Cluster that is being failed over is no reason to take every gateway out of its balancer.
        """
        problems: list[StoreError] = []

        async def ask(keyspace: Keyspace) -> Any:
            try:
                return await self.run(name, keyspace, args)
            except StoreError as error:
                problems.append(error)

        replies = await each_of(self.keyspaces, ask)
        if problems and 2 * len(problems) >= self.partitions:
            raise problems[0]
        return [reply for reply in replies if reply is not None]

    async def _examine(self) -> None:
        submits = self._submits
        self.remarks = await examine(
            self.client, durability=submits.durability, replicas=submits.replicas, now_s=self._clock()
        )

    async def _configure(self, keyspace: Keyspace, candidate: str) -> None:
        args: list[Arg] = [self.partitions, candidate, *self._rules, *self.lanes]
        schema, partitions, _ = await self.run("configure", keyspace, args)
        if schema > SCHEMA:
            raise StoreMismatch(
                f"a newer version of event-gateway works on the data in Redis (schema {schema}, this one knows "
                f"{SCHEMA}): upgrade this process"
            )
        if partitions != self.partitions:
            raise StoreMismatch(
                f"the data in Redis was laid out for {partitions} partitions, the configuration says "
                f"{self.partitions}: set gateway.partitions = {partitions}, or use another namespace"
            )

    async def _with_callback(self, found: Found) -> Found:
        """With the status of its callback, where that lies in another partition."""
        record = found.record
        if not record.callback_job_id or record.callback_status or self.partitions == 1:
            return found
        callback = (await self.find_many([record.callback_job_id], short=True))[0]
        status = "pending" if callback is None else callback.record.status.value
        return replace(found, record=replace(record, callback_status=status))

    async def _repeatable(self, name: str, keyspace: Keyspace, args: Sequence[Arg]) -> Any:
        # the arguments hold a nonce by which the script knows a repeat, so a lost reply is asked for once more
        try:
            return await self.run(name, keyspace, args)
        except StoreUnavailable:
            return await self.run(name, keyspace, args)

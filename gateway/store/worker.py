"""The store as a dispatcher sees it: claim and settle in one round trip, reap, upkeep, leave."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import msgspec

from gateway.jobs import Settlement
from gateway.keys import Keyspace
from gateway.store.claimed import NOTHING, Arrivals, parse_claim, parse_handed
from gateway.store.client import Client
from gateway.store.scripts import Arg, begin, reply_of, run

_settle_decoder = msgspec.msgpack.Decoder(list[int | str])
Place = Literal[1, 2]
PROMOTE_MOST = 1000
"""Due jobs that one claim moves into the lanes; more than it may take, so that many at once catch up fast."""


class ClaimRequest(msgspec.Struct, frozen=True):
    """A claim that may be repeated as it is until it is answered: its nonce makes the repeat safe.

    Two may be under way beside each other, in different places; none in a place whose last one is not answered.
    `next_nonce` is that of the claim that a submit may make, should this one bring nothing. `ahead_us`: by so much jobs
    may be given before they are due, to be held until then.
    """

    nonce: str
    n: int
    suspects: bool
    place: Place = 1
    next_nonce: str = ""
    ahead_us: int = 0


class Exchange(msgspec.Struct, frozen=True):
    """What came back: a status per settlement, the jobs claimed, and when there will be more.

    `wake_in_s` is the time until the next job is due (None: none is known), `more` that a lane is not empty.
    """

    settled: tuple[str, ...] = ()
    claimed: Arrivals = NOTHING
    wake_in_s: float | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How long finished and dead jobs are kept, and how many finished ones, per partition."""

    finished_ms: int
    finished_most: int
    dead_ms: int


def claim_ways(lease_ms: int, promote_most: int, heartbeat_ms: int, lanes: Sequence[tuple[str, int, int]]) -> str:
    """What is the same from claim to claim, as the script takes it: of each lane its name, its weight, and the most ms
    that its first job waits."""
    return ",".join(map(str, (lease_ms, promote_most, heartbeat_ms, *chain.from_iterable(lanes))))


def settle_args(settlements: Sequence[Settlement]) -> list[Arg]:
    """Outcomes as the settle script takes them: jobs that succeeded without a result by token and ids alone."""
    runs: list[list[str]] = []
    others: list[Settlement] = []
    last: list[str] = []
    token = ""
    for each in settlements:
        if each.outcome != "succeeded" or each.result:
            others.append(each)
        elif each.token == token:
            last += (each.job_id,)
        else:
            token = each.token
            last = [token, each.job_id]
            runs.append(last)
    return [msgspec.msgpack.encode(runs), msgspec.msgpack.encode(others)]


def read_settled(settlements: Sequence[Settlement], reply: bytes) -> tuple[str, ...]:
    """The status of each, in the order of the settlements. The script answers first for the plain ones, and tells only
    of those that have not succeeded."""
    told = _settle_decoder.decode(reply)
    if not told:
        return ("succeeded",) * len(settlements)
    statuses = ["succeeded"] * len(settlements)
    for number, status in zip(told[::2], told[1::2], strict=True):
        statuses[int(number) - 1] = str(status)
    plain = [each.outcome == "succeeded" and not each.result for each in settlements]
    firsts = plain.count(True)
    if firsts in (0, len(plain)):
        return tuple(statuses)
    first, other = iter(statuses[:firsts]), iter(statuses[firsts:])
    return tuple(next(first if is_plain else other) for is_plain in plain)


def _script(settlements: Sequence[Settlement], claim: ClaimRequest | None) -> str:
    """The one that does both, or that there is something for."""
    if claim is None:
        return "settle"
    return "exchange" if settlements else "claim"


@dataclass(slots=True)
class Worker:
    """One dispatcher's link to one partition; without `weights` the lanes go in strict order.

    Every method raises StoreError, and may then be called again as it was.
    """

    client: Client
    keyspace: Keyspace
    dispatcher_id: str
    lanes: tuple[str, ...]
    lease_ms: int
    heartbeat_ms: int
    weights: Mapping[str, int] = field(default_factory=dict)
    max_wait_ms: Mapping[str, int] = field(default_factory=dict)
    _claims: int = 0
    _ways: str = ""

    def next_claim(
        self, n: int, *, suspects: bool, place: Place = 1, stands_by: bool = False, ahead_us: int = 0
    ) -> ClaimRequest:
        """A claim with a nonce of its own. With `stands_by`, if it brings nothing, a submit may make the next one:
        nothing is to be claimed beside it, and the next one in the same place."""
        self._claims += 1
        following = f"{self.dispatcher_id}.{self._claims + 1}" if stands_by else ""
        return ClaimRequest(f"{self.dispatcher_id}.{self._claims}", n, suspects, place, following, ahead_us)

    def was_made(self, jobs: int) -> None:
        """Told that a submit made the next claim, which brought so many."""
        self._claims += 1
        self.client.calls.batch("claim", jobs)

    def read_handed(self, told: bytes) -> tuple[str, Exchange]:
        """What a submit has claimed in this dispatcher's place, and the claim's nonce (lua/handover.lua)."""
        nonce, reply = parse_handed(told)
        return nonce, self._exchange((), reply, nonce)

    async def exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        """Settles and claims in one round trip."""
        reply = await self._run(_script(settlements, claim), self._args(settlements, claim))
        return self._read(settlements, claim, reply)

    def begin(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> asyncio.Future[list[Any]] | None:
        """As `exchange`, without a task; None where it cannot leave at once. `answer` reads what comes."""
        name, args = _script(settlements, claim), self._args(settlements, claim)
        return begin(self.client, name, self.keyspace.prefix, args)

    def answer(
        self,
        settlements: Sequence[Settlement],
        claim: ClaimRequest | None,
        sent: asyncio.Future[list[Any]],
        *,
        took_s: float,
    ) -> Exchange | None:
        """What came of one that was begun; None where it was not carried out, which is for `exchange` to do then.
        Raises StoreError."""
        reply = reply_of(self.client, sent)
        if reply is None:
            return None
        self.client.calls.took(_script(settlements, claim), took_s)
        return self._read(settlements, claim, reply)

    def _read(self, settlements: Sequence[Settlement], claim: ClaimRequest | None, reply: Any) -> Exchange:
        settled: tuple[str, ...] = ()
        if settlements:
            self.client.calls.batch("settle", len(settlements))
            settled = read_settled(settlements, reply if claim is None else reply[0])
        if claim is None:
            return Exchange(settled)
        exchange = self._exchange(settled, reply[1] if settlements else reply, claim.nonce)
        self.client.calls.batch("claim", len(exchange.claimed))
        return exchange

    def _args(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> list[Arg]:
        if claim is None:
            return settle_args(settlements)
        return settle_args(settlements) + self.claim_args(claim) if settlements else self.claim_args(claim)

    async def reap(self, most: int, *, max_stalls: int) -> list[tuple[str, str]]:
        """Takes back up to `most` jobs whose lease ran out: ids and the status each has now."""
        reply = await self._run("reap", [most, max_stalls])
        return [(reply[i].decode(), reply[i + 1].decode()) for i in range(0, len(reply), 2)]

    async def upkeep(self, limits: RetentionLimits, *, most: int) -> tuple[int, bool, int]:
        """Removes up to `most` jobs past their retention: how many, is there more, dispatchers found lost."""
        args = [limits.finished_ms, limits.finished_most, limits.dead_ms, most]
        removed, more, lost = await self._run("upkeep", args)
        return removed, bool(more), lost

    async def progress(self, reports: Sequence[tuple[str, str, str]]) -> None:
        """Shows progress (job id, token, JSON) in the records of jobs that are still held."""
        await self._run("progress", [msgspec.msgpack.encode(reports)])

    async def leave(self) -> None:
        """Says goodbye, so that this dispatcher is not counted as lost."""
        await self._run("leave", [self.dispatcher_id])

    async def _run(self, name: str, args: Sequence[Arg]) -> Any:
        return await run(self.client, name, self.keyspace.prefix, args)

    def claim_args(self, claim: ClaimRequest) -> list[Arg]:
        """The claim as the script takes it (lua/claim.lua)."""
        if not self._ways:
            self._ways = claim_ways(
                self.lease_ms,
                PROMOTE_MOST,
                self.heartbeat_ms,
                [(lane, self.weights.get(lane, 0), self.max_wait_ms.get(lane, 0)) for lane in self.lanes],
            )
        return [
            self.dispatcher_id,
            claim.nonce,
            claim.n,
            1 if claim.suspects else 0,
            claim.place,
            claim.next_nonce,
            self._ways,
            claim.ahead_us,
        ]

    def _exchange(self, settled: tuple[str, ...], reply: Sequence[Any], nonce: str) -> Exchange:
        wake_us, more, claimed = parse_claim(reply, partition=self.keyspace.partition, nonce=nonce)
        return Exchange(settled, claimed, wake_us / 1e6 if wake_us >= 0 else None, more)

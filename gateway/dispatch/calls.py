"""Calls of a claim loop: what one settles and claims, and the slots that it has reserved until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from msgspec.structs import replace

from gateway.dispatch.slots import Slots, Turn
from gateway.jobs import Settlement
from gateway.store import ClaimRequest, Exchange


@dataclass(frozen=True, slots=True)
class Standby:
    """A claim that is left with the server since `since_s` at the latest."""

    nonce: str
    since_s: float


@dataclass(slots=True, eq=False)
class Call:
    """An exchange, from when it leaves until its answer is taken; times are by `perf_counter`.

    `asked_s` is when it left first, `sent_s` when it did last: it is repeated until it is answered, at `came_s`.
    `doubtful` from when it has failed once: its outcomes may be written, and a claim bring the same jobs again. Of such
    the repeat would be refused, as if their leases had been lost.
    """

    settlements: Sequence[Settlement]
    claim: ClaimRequest | None
    reserved: int
    suspect_reserved: bool
    asked_s: float = 0.0
    sent_s: float = 0.0
    doubtful: bool = False
    came: Exchange | None = None
    came_s: float = 0.0
    _came: asyncio.Event | None = None

    @property
    def stands_by(self) -> bool:
        """Whether it leaves the next claim with the server, if it brings nothing."""
        return self.claim is not None and self.claim.next_nonce != ""

    def answer(self, exchange: Exchange) -> None:
        """It is answered."""
        self.came, self.came_s = exchange, perf_counter()
        if self._came is not None:
            self._came.set()

    async def over(self) -> None:
        """Returns once it is answered."""
        if self.came is None:
            self._came = self._came or asyncio.Event()
            await self._came.wait()

    def doubt(self) -> None:
        """It has failed. Its repeat asks for nothing ahead, since what it brings may have to be given back at once."""
        self.doubtful = True
        if self.claim is not None:
            self.claim = replace(self.claim, ahead_us=0)

    def lend(self, slots: Slots) -> None:
        """Leaves to others what it has reserved, since its answer is late."""
        reserved, self.reserved = self.reserved, 0
        if self.suspect_reserved:
            slots.give_back_suspect()
            self.suspect_reserved = False
        if reserved:
            slots.give_back(reserved)

    def keep(self, exchange: Exchange, slots: Slots, turn: Turn) -> tuple[Exchange, list[Settlement]]:
        """Of an answer to what was lent: what of it has a slot by now, and the rest, to go back unspent."""
        jobs = list(exchange.claimed)
        for job in [job for job in jobs if job.suspect]:
            self.suspect_reserved = self.suspect_reserved or slots.reserve_suspect(turn)
            if not self.suspect_reserved:
                jobs.remove(job)
        self.reserved = slots.take(len(jobs))
        kept = jobs[: self.reserved]
        kept_ids = {job.job_id for job in kept}
        if self.suspect_reserved and not any(job.suspect for job in kept):
            slots.give_back_suspect()
            self.suspect_reserved = False
        rest = [job for job in exchange.claimed if job.job_id not in kept_ids]
        released = [Settlement(job.job_id, job.token, "released") for job in rest]
        return replace(exchange, claimed=exchange.claimed.among(kept_ids), more=True), released

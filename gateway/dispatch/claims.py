"""The claim loop: one per partition, one exchange (settle + claim) under way at a time.

The loops of a dispatcher share its slots in turn (`slots`). A partition that is away keeps neither slots nor the place
for a suspect from the others: what its claim had reserved is lent to them until it is answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

import structlog

from gateway.dispatch.slots import Slots, Turn
from gateway.errors import StoreError, StoreMismatch
from gateway.jobs import Claimed, Settlement
from gateway.store import ClaimRequest, Exchange, Worker

log = structlog.get_logger(__name__)

POLL_S = (0.5, 1.0)
"""Between these, at random: what guarantees progress when a wake-up is lost."""

POLLED_PARTITIONS = 4
"""With more partitions each is polled less often, so that an idle dispatcher makes no more claims than with these."""

_STEPS_TO_LEAVE = 2
"""Turns of the event loop until a request has left: one to make it, one for the loop to write it."""

EARLY_S = 0.0001
"""So much before jobs are due they are asked for, at most: asked in vain, Redis says how long is left."""

AHEAD_S = 0.002
"""So much before jobs are due Redis is asked in vain: the claim that gets them finds it and this process awake, and
caches warm, in which it takes a third of the time."""

_BACKOFF_S = (0.02, 1.0)


class ClaimLoop:
    """Claims from one partition whenever there may be work and slots are free, and writes outcomes back.

    Idle, it waits for a wake-up, the next due job, or the poll. Busy, its batches grow with what happened while the
    last exchange was under way. A lost reply is asked for again, with the same nonce, until it is answered.

    `start` is told when its jobs were asked for first, by `perf_counter`: their leases began no earlier.
    """

    def __init__(
        self,
        worker: Worker,
        slots: Slots,
        *,
        start: Callable[[Sequence[Claimed], float], None],
        settled: Callable[[Sequence[Settlement], Sequence[str]], None],
        rng: random.Random,
        partitions: int = 1,
    ) -> None:
        self._worker = worker
        self._slots = slots
        self._start = start
        self._settled = settled
        self._rng = rng
        self._settlements: list[Settlement] = []
        self._event = asyncio.Event()
        self._written = asyncio.Event()
        self._hungry = True
        self._woken = False
        self._claiming = True
        # by `perf_counter`: the event loop's clock has whole milliseconds
        self._look_at = 0.0
        self._sent_s = self._asked_s = self._arrived_asked_s = 0.0
        self._timed = False
        stretch = max(1.0, partitions / POLLED_PARTITIONS)
        self._poll_s = (POLL_S[0] * stretch, POLL_S[1] * stretch)
        # what the claim under way has reserved
        self._reserved = 0
        self._suspect_reserved = False
        self._arrived: Sequence[Claimed] = ()
        self._told: tuple[Sequence[Settlement], Sequence[str]] = ((), ())
        self.turned_s: float | None = None
        self._timer: asyncio.TimerHandle
        # half of the slots at once, so that one half runs while the other is fetched
        self._batch = max(1, (slots.count + 1) // 2)
        self._turn = Turn(self._slot_freed)

    def wake(self) -> None:
        """There is work: somebody was woken for it, and it is this dispatcher."""
        self._hungry = self._woken = True
        self._event.set()

    def look(self) -> None:
        """There may be work that the last claim passed over."""
        self._hungry = True
        self._event.set()

    def settle(self, settlement: Settlement) -> None:
        """Queues an outcome for the next exchange."""
        self._settlements.append(settlement)
        self._written.clear()
        self._event.set()

    def stop_claiming(self) -> None:
        """From now on only settles."""
        self._claiming = False
        self._slots.leave(self._turn)
        self._event.set()

    async def wait_written(self) -> None:
        """Returns once no exchange is under way and every outcome is written."""
        await self._written.wait()

    async def run(self) -> None:
        """Runs until cancelled; raises StoreMismatch if the data became another version's."""
        clock = asyncio.get_running_loop().time
        while True:
            self.turned_s = clock()
            settlements, claim = self._settlements, self._next_claim()
            if not settlements and claim is None:
                self._catch_up()
                if not self._settlements:  # else what arrived after the last claim was given back at once
                    self._written.set()
                await self._wait()
                continue
            self._settlements = []
            self._written.clear()
            exchange = await self._exchange_first(settlements, claim)
            if settlements:
                self._told = (settlements, exchange.settled)
                self._expect_retries(settlements)
            if claim is not None:
                self._take(claim, exchange)

    async def _exchange_first(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        """Exchanges, and looks at what the last exchange brought once the request has left: Redis works on the one
        while those jobs run. Begun the other way round, a batch of short jobs would keep the request back until it is
        through."""
        if not self._arrived and not self._told[0]:
            return await self._exchange(settlements, claim)
        exchange = asyncio.create_task(self._exchange(settlements, claim))
        try:
            for _ in range(_STEPS_TO_LEAVE):
                await asyncio.sleep(0)
            self._catch_up()
            return await exchange
        except asyncio.CancelledError:
            exchange.cancel()
            raise

    def _catch_up(self) -> None:
        """Tells of what the last exchange wrote, and starts what it brought: jobs among these may be some of those."""
        (settlements, statuses), self._told = self._told, ((), ())
        if settlements:
            self._settled(settlements, statuses)
        arrived, self._arrived = self._arrived, ()
        if arrived:
            self._start(arrived, self._arrived_asked_s)

    def _next_claim(self) -> ClaimRequest | None:
        if not (self._claiming and self._hungry):
            return None
        # what is due at one instant is mostly many, and none of it is to wait for a second claim
        n = self._reserved = self._slots.reserve(self._turn, self._slots.count if self._timed else self._batch)
        if n == 0:
            return self._pass_on() if self._woken else None
        self._hungry = self._woken = self._timed = False
        self._suspect_reserved = self._slots.reserve_suspect(self._turn)
        return self._worker.next_claim(n, suspects=self._suspect_reserved)

    def _pass_on(self) -> ClaimRequest:
        """A claim of nothing: other partitions' jobs hold the slots, so it wakes another dispatcher for these ones."""
        self._woken = False
        return self._worker.next_claim(0, suspects=False)

    async def _exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        delay_s, lent = _BACKOFF_S[0], False
        self._asked_s = perf_counter()
        self._turn.away = True
        try:
            while True:
                self.turned_s = asyncio.get_running_loop().time()
                self._sent_s = perf_counter()
                try:
                    exchange = await self._worker.exchange(settlements, claim)
                    return self._kept(exchange) if lent else exchange
                except StoreMismatch:
                    raise
                except StoreError as error:
                    log.warning(
                        "exchange failed",
                        partition=self._worker.keyspace.partition,
                        error=str(error),
                        retry_in_s=round(delay_s, 2),
                    )
                self._lend()
                lent = True
                await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.5))
                delay_s = min(_BACKOFF_S[1], delay_s * 2)
        finally:
            self._turn.away = False

    def _lend(self) -> None:
        reserved, self._reserved = self._reserved, 0
        if self._suspect_reserved:
            self._slots.give_back_suspect()
            self._suspect_reserved = False
        if reserved:
            self._slots.give_back(reserved)

    def _kept(self, exchange: Exchange) -> Exchange:
        """What of a late answer has a slot by now; the rest goes back unspent."""
        jobs = list(exchange.claimed)
        for job in [job for job in jobs if job.suspect]:
            self._suspect_reserved = self._suspect_reserved or self._slots.reserve_suspect(self._turn)
            if not self._suspect_reserved:
                jobs.remove(job)
        self._reserved = self._slots.take(len(jobs))
        kept = jobs[: self._reserved]
        kept_ids = {job.job_id for job in kept}
        if self._suspect_reserved and not any(job.suspect for job in kept):
            self._slots.give_back_suspect()
            self._suspect_reserved = False
        for job in exchange.claimed:
            if job.job_id not in kept_ids:
                self.settle(Settlement(job.job_id, job.token, "released"))
        return replace(exchange, claimed=exchange.claimed.among(kept_ids), more=True)

    def _take(self, claim: ClaimRequest, exchange: Exchange) -> None:
        got, reserved = len(exchange.claimed), self._reserved
        if self._suspect_reserved and not exchange.claimed.has_suspect:
            self._slots.give_back_suspect()
        self._reserved, self._suspect_reserved = 0, False
        poll_s = self._rng.uniform(*self._poll_s)
        wait_s = poll_s if exchange.wake_in_s is None else min(poll_s, _ahead_of(exchange.wake_in_s))
        # from when it was sent: Redis told the time a little later, and the next claim is as long on its way
        self._look_at = self._sent_s + wait_s
        self._hungry = self._hungry or exchange.more or got == claim.n
        self._arrived, self._arrived_asked_s = exchange.claimed, self._asked_s
        if claim.n:
            self._turn.fed(claim.n, got)
        if got < reserved:
            self._slots.give_back(reserved - got)

    def _expect_retries(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            if settlement.outcome == "retry":
                self._look_at = min(self._look_at, self._sent_s + settlement.delay_ms / 1000)

    async def _wait(self) -> None:
        self._arm()
        try:
            await self._event.wait()
        finally:
            self._timer.cancel()
        self._event.clear()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._look_at - perf_counter(), self._look_again)

    def _look_again(self) -> None:
        now_s = perf_counter()
        if now_s < self._look_at - EARLY_S:  # timers have whole milliseconds, and some run early
            self._arm()
            return
        # should this claim be put off, for want of slots, the next look is a poll away
        self._look_at = now_s + self._poll_s[1]
        self._hungry = self._timed = True
        self._event.set()

    def _slot_freed(self) -> None:
        if self._hungry:
            self._event.set()


def _ahead_of(due_in_s: float) -> float:
    """When to ask for what is due then: first a little ahead, and then for it."""
    return due_in_s - AHEAD_S if due_in_s > 2 * AHEAD_S else due_in_s

"""The claim loop: one per partition, with an exchange (settle + claim) under way, or two where there is much to do.

The loops of a dispatcher share its slots in turn (`slots`). A partition that is away keeps neither slots nor the place
for a suspect from the others: what its claim had reserved is lent to them until it is answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from time import perf_counter

import structlog

from gateway.dispatch.ahead import AHEAD_US, ASK_S, Ahead, ServerClock
from gateway.dispatch.calls import Call, Standby
from gateway.dispatch.slots import Slots, Turn
from gateway.errors import StoreError, StoreMismatch
from gateway.jobs import Claimed, Settlement
from gateway.store import ClaimRequest, Exchange, Worker
from gateway.store.worker import Place

log = structlog.get_logger(__name__)

POLL_S = (0.5, 1.0)
"""Between these, at random: what guarantees progress when a wake-up is lost."""

POLLED_PARTITIONS = 4
"""With more partitions each is polled less often, so that an idle dispatcher makes no more claims than with these."""

CALLS = 2
"""Exchanges under way at once: Redis is at work on the one while the jobs of the other are started and settled here."""

_STEPS_TO_LEAVE = 2
"""Turns of the event loop until a request has left: one to make it, one for the loop to write it. Jobs that are over at
their first step are over by then as well."""

EARLY_S = 0.0001
"""So much before it is to look the loop does, at most: asked in vain, Redis says how long is left."""

STANDBY_LEASE_MS = 10_000
"""With shorter leases no claim is left with the server: its lease counts from when it was left there, at the earliest,
which may be a poll ago."""

_BACKOFF_S = (0.02, 1.0)


class ClaimLoop:
    """Claims from one partition whenever there may be work and slots are free, and writes outcomes back.

    Idle, it waits for a wake-up, the next due job, or the poll. Busy, its batches grow with what happened while the
    last exchange was under way; another one leaves beside that where half of the slots are free and the last claim
    came back full. A lost reply is asked for again, with the same nonce, until it is answered; of two, the older one's
    first, and nothing else leaves beside it.

    What will be due is asked for a little ahead, and held until it is (ahead.py).

    Where nothing runs and nothing came, the next claim stands by at the server: a submit makes it, and what it brings
    comes with the wake-up. Where that is lost the next claim from here brings it, since it has the same nonce.

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
        self._ahead = Ahead(self._start_held)
        self._server_clock = ServerClock()
        self._settlements: list[Settlement] = []
        self._event = asyncio.Event()
        self._written = asyncio.Event()
        self._hungry = True
        self._woken = False
        self._claiming = True
        # by `perf_counter`: the event loop's clock has whole milliseconds
        self._look_at = 0.0
        self._timed = False
        stretch = max(1.0, partitions / POLLED_PARTITIONS)
        self._poll_s = (POLL_S[0] * stretch, POLL_S[1] * stretch)
        self._calls: list[Call] = []
        self._answered: list[Call] = []
        self._plenty = False
        self._stands_by = partitions == 1 and worker.lease_ms >= STANDBY_LEASE_MS
        self._standby: Standby | None = None
        self._handed: tuple[str, Exchange] | None = None
        self._arrived: list[tuple[Sequence[Claimed], float]] = []
        self._told: list[tuple[Sequence[Settlement], Sequence[str]]] = []
        self.turned_s: float | None = None
        self._timer: asyncio.TimerHandle
        # half of the slots at once, so that one half runs while the other is fetched
        self._batch = max(1, (slots.count + 1) // 2)
        self._enough = max(1, slots.count // 2)
        self._turn = Turn(self._slot_freed)

    def wake(self) -> None:
        """There is work: somebody was woken for it, and it is this dispatcher."""
        self._hungry = self._woken = True
        self._event.set()

    def look(self) -> None:
        """There may be work that the last claim passed over."""
        self._hungry = True
        self._event.set()

    def hand_over(self, told: bytes) -> None:
        """A submit has made the standby claim, and this is what it brought: it starts in this turn of the loop."""
        self._handed = self._worker.read_handed(told)
        self._take_handed()
        self._catch_up()
        self._event.set()

    def settle(self, *settlements: Settlement) -> None:
        """Queues outcomes for the next exchange."""
        if not self._settlements:
            self._written.clear()
        self._settlements += settlements
        # else it leaves once a call is answered
        if not self._calls or (len(self._settlements) >= self._enough and self._has_enough()):
            self._event.set()

    def take_held(self, job_id: str) -> Claimed | None:
        """Takes out a job that is held until it is due: it has a slot, and is not started. None for any other."""
        return self._ahead.take(job_id)

    def stop_claiming(self) -> None:
        """From now on only settles. What is held is given back when it is due, or others would start it early."""
        self._claiming = False
        self._slots.leave(self._turn)
        if self._standby is not None:
            self._written.clear()  # until it is known what that has brought
        self._event.set()

    async def wait_written(self) -> None:
        """Returns once no exchange is under way, no job is held, and every outcome is written."""
        await self._written.wait()

    async def run(self) -> None:
        """Runs until cancelled; raises StoreMismatch if the data became another version's."""
        clock = asyncio.get_running_loop().time
        try:
            while True:
                self.turned_s = clock()
                self._take_answer()
                self._take_handed()
                call = self._next_call()
                if call is not None:
                    await self._leave(call)
                    continue
                self._catch_up()
                if self._answered:
                    # what these jobs bring leaves before the next answer is taken, or both would go on together
                    await _turns()
                elif self._calls or not self._settlements:  # else what arrived was given back at once
                    await self._wait()
        finally:
            await self._end_calls()

    async def _leave(self, call: Call) -> None:
        """Sends it, and looks at what the last answer brought once it has left: Redis works on the one while those jobs
        run. Begun the other way round, a batch of short jobs would keep the request back until it is through."""
        self._calls.append(call)
        self._turn.away = True
        if not (self._arrived or self._told or self._plenty or self._answered):
            await self._exchange(call)  # there is nothing to do meanwhile, and a task would have it leave a turn later
            return
        call.task = asyncio.create_task(self._exchange(call))
        if self._arrived or self._told:
            await _turns()
            self._catch_up()

    async def _end_calls(self) -> None:
        self._ahead.drop()
        tasks = [call.task for call in self._calls if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take_answer(self) -> None:
        """Takes the first that is there. Of two that came together each is looked at by itself, or they would go on
        together for ever: Redis and this process would wait for each other in turn."""
        if not self._answered:
            return
        call = self._answered.pop(0)
        exchange = call.answer()
        self._calls.remove(call)
        self._turn.away = bool(self._calls)
        if call.settlements:
            self._told.append((call.settlements, exchange.settled))
            self._expect_retries(call)
        if call.claim is not None:
            self._take(call, call.claim, exchange)

    def _catch_up(self) -> None:
        """Tells of what the last exchange wrote, and starts what it brought: jobs among these may be some of those."""
        told, self._told = self._told, []
        for settlements, statuses in told:
            self._settled(settlements, statuses)
        arrived, self._arrived = self._arrived, []
        for jobs, asked_s in arrived:
            self._start(jobs, asked_s)

    def _start_held(self, jobs: Sequence[Claimed], asked_s: float) -> None:
        self._start(jobs, asked_s)
        self._event.set()

    def _next_call(self) -> Call | None:
        """What is to leave now, if anything is: beside another one only a large one, or each would be small."""
        if len(self._calls) > len(self._answered):
            if not self._has_enough():
                return None
            self._hungry = True
        claim, reserved, suspect_reserved = self._next_claim()
        if claim is None and not self._settlements:
            return None
        settlements, self._settlements = self._settlements, []
        self._written.clear()
        return Call(settlements, claim, reserved, suspect_reserved)

    def _has_enough(self) -> bool:
        """Whether one more may leave beside that which is under way."""
        if len(self._calls) == CALLS or any(call.doubtful or call.stands_by for call in self._calls):
            return False
        return self._claiming and self._plenty and self._slots.spare(self._turn) >= self._enough

    def _next_claim(self) -> tuple[ClaimRequest | None, int, bool]:
        """A claim, the slots that it has reserved, and whether it has the place for a suspect as well."""
        if not self._claiming:
            return (None if self._standby is None else self._claim_none()), 0, False
        stands_by = self._stands_by and not self._calls and self._slots.free == self._slots.count
        # so that one stands by again once the last job is over
        if not (self._hungry or (stands_by and self._settlements and self._standby is None)):
            return None, 0, False
        # what is due at one instant is mostly many, and none of it is to wait for a second claim
        n = self._slots.reserve(self._turn, self._slots.count if self._timed else self._batch)
        if n == 0:
            # other partitions' jobs hold the slots: a claim of nothing wakes another dispatcher for these ones
            return (self._claim_none() if self._woken else None), 0, False
        ahead_us = AHEAD_US if self._timed else 0
        self._hungry = self._woken = self._timed = False
        suspects = not (self._calls and self._calls[0].suspect_reserved) and self._slots.reserve_suspect(self._turn)
        self._standby = self._handed = None
        claim = self._worker.next_claim(
            n, suspects=suspects, place=self._place(), stands_by=stands_by, ahead_us=ahead_us
        )
        return claim, n, suspects

    def _place(self) -> Place:
        """One that the call under way does not have: each has its own, in which Redis remembers its claim."""
        other = self._calls[0].claim if self._calls else None
        return 2 if other is not None and other.place == 1 else 1

    def _claim_none(self) -> ClaimRequest:
        """A claim of nothing new; what the standby has brought it brings all the same."""
        self._woken = False
        self._standby = self._handed = None
        return self._worker.next_claim(0, suspects=False, place=self._place())

    async def _exchange(self, call: Call) -> None:
        delay_s = _BACKOFF_S[0]
        call.asked_s = perf_counter()
        try:
            while True:
                self.turned_s = asyncio.get_running_loop().time()
                call.sent_s = perf_counter()
                try:
                    exchange = await self._worker.exchange(call.settlements, call.claim)
                    call.came_s = perf_counter()
                    call.came = self._kept(call, exchange) if call.doubtful else exchange
                    return
                except StoreMismatch:
                    raise
                except StoreError as error:
                    log.warning(
                        "exchange failed",
                        partition=self._worker.keyspace.partition,
                        error=str(error),
                        retry_in_s=round(delay_s, 2),
                    )
                call.lend(self._slots)
                call.doubt()
                await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.5))
                await self._answers_before(call)
                delay_s = min(_BACKOFF_S[1], delay_s * 2)
        finally:
            self._answered.append(call)
            self._event.set()

    async def _answers_before(self, call: Call) -> None:
        """Returns once the one that left before this is answered, if one is under way."""
        older = self._calls[0].task
        if older is not None and older is not call.task:
            await asyncio.wait([older])

    def _kept(self, call: Call, exchange: Exchange) -> Exchange:
        kept, released = call.keep(exchange, self._slots, self._turn)
        self.settle(*released)
        return kept

    def _take(self, call: Call, claim: ClaimRequest, exchange: Exchange) -> None:
        got, reserved = len(exchange.claimed), call.reserved
        if call.suspect_reserved and not exchange.claimed.has_suspect:
            self._slots.give_back_suspect()
        # from when it was sent: Redis told the time a little later, and the next claim is as long on its way
        self._look_at = call.sent_s + self._wait_s(exchange.wake_in_s, asked_ahead=claim.ahead_us > 0)
        self._hungry = self._hungry or exchange.more or got == claim.n
        self._plenty = 0 < claim.n == got and exchange.more
        self._server_clock.saw(call, exchange.claimed)
        if got and (due_s := self._server_clock.due_s(call, exchange.claimed)) > perf_counter():
            self._ahead.hold(exchange.claimed, call.asked_s, due_s=due_s)
        elif got:
            self._arrived.append((exchange.claimed, call.asked_s))
        if claim.n:
            self._turn.fed(claim.n, got)
        if got < reserved:
            self._slots.give_back(reserved - got)
        elif got > reserved:
            self._slots.take(got - reserved)  # of a standby claim, asked for at the end and to be given back
        if call.stands_by and not got:
            self._standby = Standby(claim.next_nonce, call.asked_s)

    def _take_handed(self) -> None:
        """Takes what the standby claim has brought, once it is known here that one stood by: the wake-up may be faster
        than the answer that tells of it."""
        if self._handed is None or self._standby is None or self._handed[0] != self._standby.nonce:
            return
        exchange, since_s = self._handed[1], self._standby.since_s
        self._standby = self._handed = None
        self._worker.was_made()
        self._slots.take(len(exchange.claimed))  # as many are free as it was to bring, since nothing ran
        self._arrived.append((exchange.claimed, since_s))
        self._hungry = self._hungry or exchange.more
        self._look_at = min(self._look_at, perf_counter() + self._wait_s(exchange.wake_in_s))

    def _wait_s(self, wake_in_s: float | None, *, asked_ahead: bool = False) -> float:
        """How long after a claim there may be something to do, of which nobody tells."""
        poll_s = self._rng.uniform(*self._poll_s)
        if wake_in_s is None:
            return poll_s
        if asked_ahead and wake_in_s * 1e6 <= AHEAD_US:  # what is due so soon is not to be had before
            return min(poll_s, wake_in_s)
        return min(poll_s, max(0.0, wake_in_s - ASK_S))

    def _expect_retries(self, call: Call) -> None:
        for settlement in call.settlements:
            if settlement.outcome == "retry":
                self._look_at = min(self._look_at, call.sent_s + settlement.delay_ms / 1000)

    async def _wait(self) -> None:
        """Waits until there may be something to do."""
        if self._calls:
            await self._event.wait()
        else:
            await self._wait_idle()
        self._event.clear()

    async def _wait_idle(self) -> None:
        if not self._ahead:
            self._written.set()
        self._arm()
        try:
            await self._event.wait()
        finally:
            self._timer.cancel()

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


async def _turns() -> None:
    for _ in range(_STEPS_TO_LEAVE):
        await asyncio.sleep(0)

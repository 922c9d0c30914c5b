"""The claim loop: one per partition, with an exchange (settle + claim) under way, or two where there is much to do.

The loops of a dispatcher share its slots in turn (`slots`). A partition that is away keeps neither slots nor the place
for a suspect from the others: what its claim had reserved is lent to them until it is answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from time import perf_counter

from gateway.dispatch.ahead import AHEAD_US, Ahead, ServerClock
from gateway.dispatch.calls import Call, Standby
from gateway.dispatch.exchanges import Exchanges
from gateway.dispatch.looks import Looks
from gateway.dispatch.slots import Slots, Turn
from gateway.jobs import Claimed, Settlement
from gateway.store import ClaimRequest, Exchange, Worker
from gateway.store.claimed import Arrivals
from gateway.store.worker import Place

CALLS = 2
"""Exchanges under way at once: Redis is at work on the one while the jobs of the other are started and settled here."""

STANDBY_LEASE_MS = 10_000
"""With shorter leases no claim is left with the server: its lease counts from when it was left there, at the earliest,
which may be a poll ago."""


class ClaimLoop:
    """Claims from one partition whenever there may be work and slots are free, and writes outcomes back.

    It goes on in callbacks, and has no task but the one that runs it. Idle, it waits for a wake-up, the next due job,
    or the poll. Busy, its batches grow with what happened while the last exchange was under way; another one leaves
    beside that where half of the slots are free and the last claim came back full.

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
        self._ahead = Ahead(self._start_held)
        self._looks = Looks(self._look_again, rng=rng, partitions=partitions)
        self._turn = Turn(self._slot_freed)
        self._exchanges = Exchanges(
            worker,
            slots,
            self._turn,
            answered=self._answered,
            failed=self._fail,
            released=lambda settlements: self.settle(*settlements),
            rng=rng,
        )
        self._server_clock = ServerClock()
        self._settlements: list[Settlement] = []
        self._written = asyncio.Event()
        self._hungry = True
        self._woken = False
        self._timed = False
        self._claiming = True
        self._plenty = False
        self._stands_by = partitions == 1 and worker.lease_ms >= STANDBY_LEASE_MS
        self._standby: Standby | None = None
        self._handed: tuple[str, Exchange] | None = None
        self._made: Exchange | None = None
        self._arrived: list[tuple[Arrivals, float]] = []
        self._told: list[tuple[Sequence[Settlement], Sequence[str]]] = []
        # half of the slots at once, so that one half runs while the other is fetched
        self._batch = max(1, (slots.count + 1) // 2)
        self._enough = max(1, slots.count // 2)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self._soon: asyncio.Handle | None = None
        self._over: asyncio.Future[None] | None = None
        self._turned_s = 0.0

    def idle_s(self) -> float:
        """How long ago it last went on; 0 while it does not run."""
        return perf_counter() - max(self._turned_s, self._exchanges.sent_s) if self._loop is not None else 0.0

    def wake(self) -> None:
        """There is work: somebody was woken for it, and it is this dispatcher."""
        self._hungry = self._woken = True
        self._go_on_soon()

    def look(self) -> None:
        """There may be work that the last claim passed over."""
        self._hungry = True
        self._go_on_soon()

    def hand_over(self, told: bytes) -> None:
        """A submit has made the standby claim, and this is what it brought: it starts in this turn of the loop."""
        try:
            self._handed = self._worker.read_handed(told)
            self._take_handed()
            self._catch_up()
        except Exception as error:  # else it would end the connection alone that brought it
            self._fail(error)
        self._go_on_soon()

    def settle(self, *settlements: Settlement) -> None:
        """Queues outcomes for the next exchange."""
        self._settlements += settlements
        # else they leave once a call is answered
        if not self._exchanges.calls or (len(self._settlements) >= self._enough and self._has_enough()):
            self._go_on_soon()

    def take_held(self, job_id: str) -> Claimed | None:
        """Takes out a job that is held until it is due: it has a slot, and is not started. None for any other."""
        return self._ahead.take(job_id)

    def stop_claiming(self) -> None:
        """From now on only settles. What is held is given back when it is due, or others would start it early."""
        self._claiming = False
        self._slots.leave(self._turn)
        self._go_on_soon()

    async def wait_written(self) -> None:
        """Returns once no exchange is under way, no job is held, and every outcome is written."""
        while self._owes():
            self._written.clear()
            await self._written.wait()

    async def run(self) -> None:
        """Runs until cancelled; raises StoreMismatch if the data became another version's."""
        self._loop, self._context, self._turned_s = asyncio.get_running_loop(), copy_context(), perf_counter()
        self._over = self._loop.create_future()
        self._go_on_soon()
        try:
            await self._over
        finally:
            self._loop = None
            if self._soon is not None:
                self._soon.cancel()
            self._looks.stop()
            self._ahead.drop()
            await self._exchanges.end()

    def _go_on_soon(self) -> None:
        """In the event loop's next turn, after what is to run in it already; in a context of its own, since jobs ask
        for it too, and the next ones would find what they have left in theirs."""
        if self._soon is None and self._loop is not None:
            self._soon = self._loop.call_soon(self._go_on, context=self._context)

    def _answered(self) -> None:
        """A call is. Of two that came together each is looked at by itself, or they would go on together for ever:
        Redis and this process would wait for each other in turn."""
        if self._soon is None:
            self._go_on()

    def _go_on(self) -> None:
        self._soon = None
        try:
            self._take_turn()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _take_turn(self) -> None:
        """The next call leaves, and in the turn after it what the last answer brought is looked at: Redis works on the
        one while those jobs run. Begun the other way round, a batch of short jobs would keep the request back until it
        is through. Then what these jobs bring leaves before the next answer is taken."""
        self._turned_s = perf_counter()
        if not (self._arrived or self._told):
            self._take_answer()
            self._take_handed()
            self._note_made()
            call = self._next_call()
            if call is not None:
                self._exchanges.leave(call)
                if self._arrived or self._told or self._plenty or self._exchanges.answers:
                    self._go_on_soon()
                return
        if self._catch_up() or self._exchanges.answers or (self._exchanges.calls and self._has_enough()):
            self._go_on_soon()
        elif not self._exchanges.calls and self._soon is None:
            self._wait_idle()

    def _wait_idle(self) -> None:
        if not self._owes():
            self._written.set()
        self._looks.arm()

    def _owes(self) -> bool:
        """Whether anything is still to be written; what a standby claim has brought, only the next one tells."""
        asked = self._exchanges.calls or (self._standby is not None and not self._claiming)
        return bool(asked or self._ahead or self._settlements or self._arrived or self._told)

    def _take_answer(self) -> None:
        call = self._exchanges.take()
        if call is None:
            return
        exchange = call.came
        assert exchange is not None, "it is answered"
        if call.settlements:
            self._told.append((call.settlements, exchange.settled))
            self._expect_retries(call)
        if call.claim is not None:
            self._take(call, call.claim, exchange)

    def _catch_up(self) -> bool:
        """Tells of what the last exchange wrote, and starts what it brought, if anything: jobs among these may be some
        of those."""
        if self._told:
            told, self._told = self._told, []
            for settlements, statuses in told:
                self._settled(settlements, statuses)
        if not self._arrived:
            return False
        arrived, self._arrived = self._arrived, []
        for arrivals, asked_s in arrived:
            self._start(arrivals.jobs(), asked_s)
        return True

    def _start_held(self, jobs: Sequence[Claimed], asked_s: float) -> None:
        try:
            self._start(jobs, asked_s)
        except Exception as error:  # a timer has nobody to tell
            self._fail(error)
        self._go_on_soon()

    def _next_call(self) -> Call | None:
        """What is to leave now, if anything is: beside another one only a large one, or each would be small."""
        if len(self._exchanges.calls) > len(self._exchanges.answers):
            if not self._has_enough():
                return None
            self._hungry = True
        claim, reserved, suspect_reserved = self._next_claim()
        if claim is None and not self._settlements:
            return None
        settlements, self._settlements = self._settlements, []
        return Call(settlements, claim, reserved, suspect_reserved)

    def _has_enough(self) -> bool:
        """Whether one more may leave beside that which is under way."""
        calls = self._exchanges.calls
        if len(calls) == CALLS or not (self._claiming and self._plenty):
            return False
        if self._slots.spare(self._turn) < self._enough:
            return False
        return not any(call.doubtful or call.stands_by for call in calls)

    def _next_claim(self) -> tuple[ClaimRequest | None, int, bool]:
        """A claim, the slots that it has reserved, and whether it has the place for a suspect as well."""
        if not self._claiming:
            # what stood by may have brought something, and whom it was woken for another one is to have
            return (self._claim_none() if self._woken or self._standby is not None else None), 0, False
        calls = self._exchanges.calls
        stands_by = self._stands_by and not calls and self._slots.free == self._slots.count
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
        suspects = not (calls and calls[0].suspect_reserved) and self._slots.reserve_suspect(self._turn)
        self._standby = self._handed = None
        claim = self._worker.next_claim(
            n, suspects=suspects, place=self._place(), stands_by=stands_by, ahead_us=ahead_us
        )
        return claim, n, suspects

    def _place(self) -> Place:
        """One that the call under way does not have: each has its own, in which Redis remembers its claim."""
        calls = self._exchanges.calls
        other = calls[0].claim if calls else None
        return 2 if other is not None and other.place == 1 else 1

    def _claim_none(self) -> ClaimRequest:
        """A claim of nothing new; what the standby has brought it brings all the same."""
        self._woken = False
        self._standby = self._handed = None
        return self._worker.next_claim(0, suspects=False, place=self._place())

    def _take(self, call: Call, claim: ClaimRequest, exchange: Exchange) -> None:
        got, reserved = len(exchange.claimed), call.reserved
        if call.suspect_reserved and not exchange.claimed.has_suspect:
            self._slots.give_back_suspect()
        self._looks.claimed(call.sent_s, exchange.wake_in_s, asked_ahead=claim.ahead_us > 0)
        self._hungry = self._hungry or exchange.more or got == claim.n
        self._plenty = 0 < claim.n == got and exchange.more
        self._server_clock.saw(call, exchange.claimed)
        if exchange.claimed.hold_us and (due_s := self._server_clock.due_s(call, exchange.claimed)) > perf_counter():
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
        self._made, since_s = self._handed[1], self._standby.since_s
        self._standby = self._handed = None
        jobs = self._made.claimed
        self._slots.take(len(jobs))  # as many are free as it was to bring, since nothing ran
        self._arrived.append((jobs, since_s))

    def _note_made(self) -> None:
        """What else the standby claim said: looked at before the next call, where it can once its jobs have begun."""
        if self._made is None:
            return
        made, self._made = self._made, None
        self._worker.was_made(len(made.claimed))
        self._hungry = self._hungry or made.more
        self._looks.handed(made.wake_in_s)

    def _expect_retries(self, call: Call) -> None:
        for settlement in call.settlements:
            if settlement.outcome == "retry":
                self._looks.expect(call.sent_s + settlement.delay_ms / 1000)

    def _look_again(self) -> None:
        if self._exchanges.calls:  # it is armed again once they are answered
            return
        if self._looks.is_time():
            self._hungry = self._timed = True
            self._go_on_soon()
        else:
            self._looks.arm()

    def _slot_freed(self) -> None:
        if self._hungry:
            self._go_on_soon()

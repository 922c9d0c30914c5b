"""The claim loop: one per partition, one exchange (settle + claim) under way at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog

from gateway.dispatch.slots import Slots
from gateway.errors import StoreError, StoreMismatch
from gateway.jobs import Claimed, Settlement
from gateway.store import ClaimRequest, Exchange, Worker

log = structlog.get_logger(__name__)

POLL_S = (0.5, 1.0)
"""Between these, at random: what guarantees progress when a wake-up is lost."""

_STEPS_TO_LEAVE = 6
"""Turns of the event loop that the client library needs to write a request; more do no harm."""

_BACKOFF_S = (0.02, 1.0)


class ClaimLoop:
    """Claims from one partition whenever there may be work and slots are free, and writes outcomes back.

    Idle, it waits for a wake-up, the next due job, or the poll. Busy, its batches grow with what happened while the
    last exchange was under way. A lost reply is asked for again, with the same nonce, until it is answered.
    """

    def __init__(
        self,
        worker: Worker,
        slots: Slots,
        *,
        start: Callable[[Sequence[Claimed]], None],
        settled: Callable[[Sequence[Settlement], Sequence[str]], None],
        rng: random.Random,
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
        self._claiming = True
        self._look_at = 0.0
        self._arrived: Sequence[Claimed] = ()
        # half of the slots at once, so that one half runs while the other is fetched
        self._batch = max(1, (slots.count + 1) // 2)
        slots.on_freed(self._slot_freed)

    def wake(self) -> None:
        """There may be work."""
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
        self._event.set()

    async def wait_written(self) -> None:
        """Returns once no exchange is under way and every outcome is written."""
        await self._written.wait()

    async def run(self) -> None:
        """Runs until cancelled; raises StoreMismatch if the data became another version's."""
        while True:
            settlements, claim = self._settlements, self._next_claim()
            if not settlements and claim is None:
                self._start_arrived()
                self._written.set()
                await self._wait()
                continue
            self._settlements = []
            self._written.clear()
            exchange = await self._exchange_first(settlements, claim)
            self._settled(settlements, exchange.settled)
            self._expect_retries(settlements)
            if claim is not None:
                self._take(claim, exchange)

    async def _exchange_first(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        """Exchanges, and starts what the last claim brought once the request has left: Redis works on the one while the
        jobs run. Begun the other way round, a batch of short jobs would keep the request back until it is through."""
        if not self._arrived:
            return await self._exchange(settlements, claim)
        exchange = asyncio.create_task(self._exchange(settlements, claim))
        try:
            for _ in range(_STEPS_TO_LEAVE):
                await asyncio.sleep(0)
            self._start_arrived()
            return await exchange
        except asyncio.CancelledError:
            exchange.cancel()
            raise

    def _start_arrived(self) -> None:
        arrived, self._arrived = self._arrived, ()
        if arrived:
            self._start(arrived)

    def _next_claim(self) -> ClaimRequest | None:
        if not (self._claiming and self._hungry):
            return None
        n = self._slots.reserve(self._batch)
        if n == 0:
            return None
        self._hungry = False
        return self._worker.next_claim(n, suspects=self._slots.reserve_suspect())

    async def _exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        delay_s = _BACKOFF_S[0]
        while True:
            try:
                return await self._worker.exchange(settlements, claim)
            except StoreMismatch:
                raise
            except StoreError as error:
                log.warning("exchange failed", error=str(error), retry_in_s=round(delay_s, 2))
            await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.5))
            delay_s = min(_BACKOFF_S[1], delay_s * 2)

    def _take(self, claim: ClaimRequest, exchange: Exchange) -> None:
        got = len(exchange.claimed)
        if claim.suspects and not any(claimed.suspect for claimed in exchange.claimed):
            self._slots.give_back_suspect()
        poll_s = self._rng.uniform(*POLL_S)
        wait_s = poll_s if exchange.wake_in_s is None else min(poll_s, exchange.wake_in_s)
        self._look_at = asyncio.get_running_loop().time() + wait_s
        self._hungry = self._hungry or exchange.more or got == claim.n
        self._arrived = exchange.claimed
        if got < claim.n:
            self._slots.give_back(claim.n - got)

    def _expect_retries(self, settlements: Sequence[Settlement]) -> None:
        now = asyncio.get_running_loop().time()
        for settlement in settlements:
            if settlement.outcome == "retry":
                self._look_at = min(self._look_at, now + settlement.delay_ms / 1000)

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_at(self._look_at, self._look_again)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
        self._event.clear()

    def _look_again(self) -> None:
        # should this claim be put off, for want of slots, the next look is a poll away
        self._look_at = asyncio.get_running_loop().time() + POLL_S[1]
        self.wake()

    def _slot_freed(self) -> None:
        if self._hungry:
            self._event.set()

"""The exchanges of a claim loop that are under way, each repeated until it is answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import structlog

from gateway.dispatch.calls import Call
from gateway.dispatch.slots import Slots, Turn
from gateway.errors import StoreError, StoreMismatch
from gateway.jobs import Settlement
from gateway.store import Exchange, Worker

log = structlog.get_logger(__name__)

_BACKOFF_S = (0.02, 1.0)


class Exchanges:
    """Sends calls, and tells when each is answered. A lost reply is asked for again, with the same nonce, until it is
    answered; of two, the older one's first, and nothing else leaves beside it.

    A call leaves without a task, and only one that fails, or cannot leave at once, gets one. `answered` is told in the
    turn of the event loop after its reply came; `failed` what no repeat would mend; `released` what came so late that
    there is no slot for it.
    """

    def __init__(
        self,
        worker: Worker,
        slots: Slots,
        turn: Turn,
        *,
        answered: Callable[[], None],
        failed: Callable[[Exception], None],
        released: Callable[[Sequence[Settlement]], None],
        rng: random.Random,
    ) -> None:
        self._worker = worker
        self._slots = slots
        self._turn = turn
        self._answered = answered
        self._failed = failed
        self._released = released
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()
        self.calls: list[Call] = []
        """Those that are not taken yet, the oldest first."""
        self.answers: list[Call] = []
        """Those of them that are answered, in that order."""
        self.sent_s = 0.0

    def leave(self, call: Call) -> None:
        """Sends it, by the end of this turn of the event loop."""
        self.calls.append(call)
        self._turn.away = True
        call.asked_s = call.sent_s = self.sent_s = perf_counter()
        sent = self._worker.begin(call.settlements, call.claim)
        if sent is None:
            self._carry_out(call)
        else:
            sent.add_done_callback(partial(self._replied, call))

    def take(self) -> Call | None:
        """The call that was answered first, which is over then; None if none is."""
        if not self.answers:
            return None
        call = self.answers.pop(0)
        self.calls.remove(call)
        self._turn.away = bool(self.calls)
        return call

    async def end(self) -> None:
        """Leaves what is under way; nobody is told any more."""
        self.calls.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _replied(self, call: Call, sent: asyncio.Future[list[Any]]) -> None:
        if call not in self.calls:
            return
        try:
            exchange = self._worker.answer(call.settlements, call.claim, sent, took_s=perf_counter() - call.sent_s)
        except StoreError as error:
            self._carry_out(call, error)
        except Exception as error:
            self._failed(error)
        else:
            if exchange is None:
                self._carry_out(call)
            else:
                self._end(call, exchange)

    def _carry_out(self, call: Call, error: StoreError | None = None) -> None:
        task = asyncio.create_task(self._repeat(call, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, call: Call, error: StoreError | None) -> None:
        """Asks until it is answered; after an error in a while."""
        delay_s = _BACKOFF_S[0]
        try:
            while True:
                if error is not None:
                    if isinstance(error, StoreMismatch):
                        raise error
                    await self._wait(call, error, delay_s)
                    delay_s = min(_BACKOFF_S[1], delay_s * 2)
                call.sent_s = self.sent_s = perf_counter()
                try:
                    exchange = await self._worker.exchange(call.settlements, call.claim)
                    break
                except StoreError as failure:
                    error = failure
            self._end(call, self._kept(call, exchange) if call.doubtful else exchange)
        except Exception as failure:
            self._failed(failure)

    async def _wait(self, call: Call, error: StoreError, delay_s: float) -> None:
        """Returns when it may leave again: after a while, and when the one that left before it is answered."""
        partition = self._worker.keyspace.partition
        log.warning("exchange failed", partition=partition, error=str(error), retry_in_s=round(delay_s, 2))
        call.lend(self._slots)
        call.doubt()
        await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.5))
        older = self.calls[0]
        if older is not call:
            await older.over()

    def _end(self, call: Call, exchange: Exchange) -> None:
        call.answer(exchange)
        self.answers.append(call)
        self._answered()

    def _kept(self, call: Call, exchange: Exchange) -> Exchange:
        kept, released = call.keep(exchange, self._slots, self._turn)
        self._released(released)
        return kept

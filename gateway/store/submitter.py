"""Submits shared by everything in one process: what arrives while a script call is under way goes in the next one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

import msgspec

from gateway.errors import StoreUnavailable
from gateway.jobs import Callback, Submission, Submitted, Verdict, pack_body, pack_long_body
from gateway.store.client import Client
from gateway.store.durability import Durability, run_durably
from gateway.store.scripts import Arg, run

BATCH = 500
"""Jobs in one script call: a few milliseconds of the server at most."""

BATCH_BYTES = 4 << 20
"""Payloads in one script call, so that it is through in time whatever else they are."""

LONG_BYTES = 1024
"""Of a payload that is an argument of its own: one more costs less than the copies that are spared."""

DURABLE_CALLS = 8
"""Script calls of one partition and process that wait for disk or replicas side by side."""

SWEEP_S = 0.1
"""How late the time limit of a submit may be kept: one timer for all of them, where each would cost as much as all
else that is done for it here."""

_reply_decoder = msgspec.msgpack.Decoder(list[tuple[int, Verdict, str, str]])
_NOT_HASHED = ("", "")
_EVENT_CODES = {"job.succeeded": "s", "job.dead": "d", "job.cancelled": "c", "job.retrying": "r"}


def event_codes(callback: Callback | None) -> str:
    """The events that a callback is wanted for, and its attempts where it says them, as the scripts know them."""
    if callback is None:
        return ""
    most = "" if callback.retry is None else str(callback.retry.max_attempts or "")
    return "".join(_EVENT_CODES[event] for event in callback.events) + most


def submit_args(
    jobs: Sequence[Submission], place_of: Callable[[Callback], str] = lambda callback: "", *, durable: bool = False
) -> list[Arg]:
    """The jobs as the submit script takes them (lua/submit.lua): the values of each, the terms that they share, and
    long bodies as arguments of their own.

    `place_of` says where the callback of a job belongs: `@<partition in hex>:<key>`, or nothing.
    """
    terms: dict[tuple[str | int, ...], int] = {}
    values: list[str | int] = []
    args: list[Arg] = [b"", "durable" if durable else ""]
    for job in jobs:
        idem, callback = job.idempotency, job.options.callback
        told = "" if callback is None else event_codes(callback) + place_of(callback)
        window_ms = idem.window_ms if idem else 0
        own = (job.lane, job.target, job.priority, job.delay_ms, job.expires_ms, job.max_attempts, told, window_ms)
        number = terms.setdefault(own, len(terms) + 1)
        hashed = (idem.key_hash, idem.fingerprint) if idem else _NOT_HASHED
        body: str | int
        if len(job.payload) < LONG_BYTES:
            body = pack_body(job.options, job.payload)
        else:
            args.append(pack_long_body(job.options, job.payload))
            body = len(args)
        values += (job.job_id, job.key, *hashed, body, number)
    args[0] = msgspec.msgpack.encode((values, list(chain.from_iterable(terms))))
    return args


def read_submitted(jobs: Sequence[Submission], reply: bytes) -> list[Submitted]:
    """What became of each job, in order: the script tells only of those that were not simply taken in."""
    results = [Submitted("accepted", job.job_id, "scheduled" if job.delay_ms else "pending") for job in jobs]
    for number, verdict, job_id, status in _reply_decoder.decode(reply):
        results[number - 1] = Submitted(verdict, job_id, status)
    return results


class Waiter(Protocol):
    """Is told once what became of jobs, in order, or why that is not known; a future is one. Never raises."""

    def done(self) -> bool:
        """Whether it was told already, or wants to know no more."""
        ...

    def set_result(self, result: list[Submitted], /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


class _Asked(msgspec.Struct):
    """Jobs that somebody waits for, until the loop's time `until_s`."""

    jobs: Sequence[Submission]
    answer: Waiter
    until_s: float


class Submitter:
    """Submits into one partition, one script call at a time; adds no wait, since an idle one sends at once.

    `place_of` says where the callback of a job belongs: `@<partition in hex>:<key>`. With a `durability` above `memory`
    a call returns once its jobs are as durable, `replicas` times; several of them wait side by side.
    """

    def __init__(
        self,
        client: Client,
        prefix: str,
        *,
        place_of: Callable[[Callback], str],
        durability: Durability = "memory",
        replicas: int = 1,
    ) -> None:
        self._place_of = place_of
        self._durability = durability
        self._replicas = replicas
        self._senders_most = 1 if durability == "memory" else DURABLE_CALLS
        self._client = client
        self._prefix = prefix
        self._waiting: list[_Asked] = []
        self._under_way: list[Sequence[_Asked]] = []
        self._senders: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    async def submit(self, jobs: Sequence[Submission], until_s: float | None = None) -> list[Submitted]:
        """What became of each job, in order; all of them go in one script call.

        StoreUnavailable if that is not known when it is `until_s` by the loop's clock (or up to `SWEEP_S` later).
        """
        answer: asyncio.Future[list[Submitted]] = asyncio.get_running_loop().create_future()
        self.ask(jobs, answer, until_s=until_s)
        return await answer

    def ask(self, jobs: Sequence[Submission], waiter: Waiter, *, until_s: float | None = None) -> None:
        """As `submit`, for who waits without a task: it is told in the turn of the loop in which the reply comes, or
        in the next one."""
        self._waiting.append(_Asked(jobs, waiter, math.inf if until_s is None else until_s))
        if len(self._senders) < self._senders_most:
            self._senders.add(asyncio.create_task(self._send_waiting()))
        if self._sweeping is None and until_s is not None:
            loop = asyncio.get_running_loop()
            self._sweeping = loop.call_later(SWEEP_S, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lets go who waited for too long; what was sent for them goes its way all the same, what was not never will:
        it would run although its client was told otherwise, and pile up for as long as Redis is silent."""
        now_s = loop.time()
        for asked in chain(self._waiting, *self._under_way):
            if not asked.answer.done() and now_s >= asked.until_s:
                asked.answer.set_exception(StoreUnavailable("Redis does not answer in time"))
        self._waiting = [asked for asked in self._waiting if not asked.answer.done()]
        left = self._waiting or any(not asked.answer.done() for asked in chain(*self._under_way))
        self._sweeping = loop.call_later(SWEEP_S, self._sweep, loop) if left else None

    async def aclose(self) -> None:
        """Waits for the calls under way, if any."""
        if self._senders:
            await asyncio.wait(self._senders)

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                group = self._take_group()
                self._under_way.append(group)
                try:
                    results = await self._send(group)
                except Exception as error:
                    for asked in group:
                        if not asked.answer.done():
                            asked.answer.set_exception(error)
                else:
                    if self._waiting:  # they leave first, so that Redis is at work while these are told
                        asyncio.get_running_loop().call_soon(_tell, group, results)
                    else:
                        _tell(group, results)
                finally:
                    self._under_way.remove(group)
        finally:
            own = asyncio.current_task()
            assert own is not None
            self._senders.discard(own)

    def _take_group(self) -> list[_Asked]:
        if len(self._waiting) == 1:
            alone, self._waiting = self._waiting, []
            return alone
        count, total, size = 0, 0, 0
        for asked in self._waiting:
            total += len(asked.jobs)
            size += sum([len(job.payload) for job in asked.jobs])
            if count and (total > BATCH or size > BATCH_BYTES):
                break
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    async def _send(self, group: Sequence[_Asked]) -> list[Submitted]:
        jobs = [job for asked in group for job in asked.jobs]
        self._client.calls.batch("submit", len(jobs))
        args = submit_args(jobs, self._place_of, durable=self._durability != "memory")
        try:
            reply = await self._call(args)
        except StoreUnavailable:
            # safe to repeat: a job that the first call took in is found by its id. Once, for a connection
            # that had gone stale; longer waits are the client's to decide.
            reply = await self._call(args)
        return read_submitted(jobs, reply)

    async def _call(self, args: Sequence[Arg]) -> bytes:
        if self._durability == "memory":
            reply: bytes = await run(self._client, "submit", self._prefix, args)
        else:
            reply = await run_durably(
                self._client,
                "submit",
                self._prefix,
                args,
                durability=self._durability,
                replicas=self._replicas,
            )
        return reply


def _tell(group: Sequence[_Asked], results: list[Submitted]) -> None:
    at = 0
    for asked in group:
        after = at + len(asked.jobs)
        if not asked.answer.done():
            asked.answer.set_result(results[at:after])
        at = after

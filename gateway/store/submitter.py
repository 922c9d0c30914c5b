"""Submits shared by everything in one process: what arrives while a script call is under way goes in the next one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from time import monotonic, perf_counter
from typing import Any, Protocol

import msgspec

from gateway.errors import StoreUnavailable
from gateway.jobs import Callback, Submission, Submitted
from gateway.store.client import Client
from gateway.store.durability import Durability, run_durably
from gateway.store.scripts import Arg, begin, reply_of, run
from gateway.store.submit_call import read_submitted, submit_args

BATCH = 500
"""Jobs in one script call: a few milliseconds of the server at most."""

BATCH_BYTES = 4 << 20
"""Payloads in one script call, so that it is through in time whatever else they are."""

ENOUGH_JOBS = 100
ENOUGH_BYTES = 96 << 10
"""So many jobs, or bytes of their payloads, leave beside the calls under way: Redis takes them in while this process
reads the next ones. With less, what a call costs by itself would count."""

CALLS = 3
"""Script calls of one partition and process that are under way at once."""

DURABLE_CALLS = 8
"""The same of those that wait for disk or replicas."""

SWEEP_S = 0.1
"""How late the time limit of a submit may be kept: one timer for all of them, where each would cost as much as all
else that is done for it here."""


class Waiter(Protocol):
    """Is told once what became of jobs, in order, or why that is not known; a future is one. Never raises."""

    def done(self) -> bool:
        """Whether it was told already, or wants to know no more."""
        ...

    def set_result(self, result: list[Submitted], /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


class _Asked(msgspec.Struct):
    """Jobs that somebody waits for, until it is `until_s` by `monotonic`."""

    jobs: Sequence[Submission]
    answer: Waiter
    until_s: float


class _Call(msgspec.Struct, eq=False):
    """A script call under way, begun at `began_s` by `perf_counter`."""

    group: Sequence[_Asked]
    jobs: Sequence[Submission]
    args: Sequence[Arg]
    began_s: float


class Submitter:
    """Submits into one partition; adds no wait, since an idle one sends in the loop's next turn.

    What comes while a call is under way goes into the next one. Where enough of it has come that leaves at once, so
    that Redis is at work while this process takes in more; else once the call is over.

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
        self._calls_most = CALLS if durability == "memory" else DURABLE_CALLS
        # with fewer under way what waits leaves, be it enough or not
        self._calls_few = 1 if durability == "memory" else DURABLE_CALLS
        self._client = client
        self._prefix = prefix
        self._waiting: list[_Asked] = []
        self._waiting_jobs = self._waiting_bytes = 0
        self._calls: list[_Call] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: asyncio.Handle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    async def submit(self, jobs: Sequence[Submission], until_s: float | None = None) -> list[Submitted]:
        """What became of each job, in order; all of them go in one script call.

        StoreUnavailable if that is not known when it is `until_s` by `monotonic` (or up to `SWEEP_S` later).
        """
        answer: asyncio.Future[list[Submitted]] = asyncio.get_running_loop().create_future()
        self.ask(jobs, answer, until_s)
        return await answer

    def ask(self, jobs: Sequence[Submission], waiter: Waiter, until_s: float | None = None) -> None:
        """As `submit`, for who waits without a task: it is told in the turn of the loop in which the reply comes, or
        in the next one."""
        self._waiting.append(_Asked(jobs, waiter, math.inf if until_s is None else until_s))
        self._waiting_jobs += len(jobs)
        for job in jobs:
            self._waiting_bytes += len(job.payload)
        calls = len(self._calls)
        if calls < self._calls_most and (self._waiting_jobs >= ENOUGH_JOBS or self._waiting_bytes >= ENOUGH_BYTES):
            self._leave()
        elif self._leaving is None and calls < self._calls_few:
            self._leaving = asyncio.get_running_loop().call_soon(self._leave)
        if self._sweeping is None and until_s is not None:
            self._sweep_later()

    async def aclose(self) -> None:
        """Waits for the calls under way, if any."""
        while self._calls or self._leaving is not None:
            self._ended.clear()
            await self._ended.wait()

    def _sweep_later(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Lets go who waited for too long; what was sent for them goes its way all the same, what was not never will:
        it would run although its client was told otherwise, and pile up for as long as Redis is silent."""
        now_s = monotonic()
        under_way = [call.group for call in self._calls]
        for asked in chain(self._waiting, *under_way):
            if not asked.answer.done() and now_s >= asked.until_s:
                asked.answer.set_exception(StoreUnavailable("Redis does not answer in time"))
        self._keep_waiting([asked for asked in self._waiting if not asked.answer.done()])
        self._sweeping = None
        if self._waiting or any(not asked.answer.done() for asked in chain(*under_way)):
            self._sweep_later()

    def _keep_waiting(self, waiting: list[_Asked]) -> None:
        """Has these wait, and no others."""
        self._waiting = waiting
        self._waiting_jobs = sum([len(asked.jobs) for asked in waiting])
        self._waiting_bytes = sum([len(job.payload) for asked in waiting for job in asked.jobs])

    def _leave(self) -> None:
        """Sends what waits, or as much of it as one call takes."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        group = self._take_group()
        if not group:  # who waited was let go
            self._ended.set()
            return
        jobs = [job for asked in group for job in asked.jobs]
        self._client.calls.batch("submit", len(jobs))
        try:
            args = submit_args(jobs, self._place_of, durable=self._durability != "memory")
        except Exception as error:
            _tell(group, error)
            if self._waiting:
                self._leaving = asyncio.get_running_loop().call_soon(self._leave)
            self._ended.set()
            return
        call = _Call(group, jobs, args, perf_counter())
        self._calls.append(call)
        sent = begin(self._client, "submit", self._prefix, args) if self._durability == "memory" else None
        if sent is None:
            self._carry_out(call)
        else:
            sent.add_done_callback(partial(self._replied, call))

    def _take_group(self) -> list[_Asked]:
        waiting = self._waiting
        if self._waiting_jobs <= BATCH and self._waiting_bytes <= BATCH_BYTES:
            count = len(waiting)
        else:
            count, jobs, size = 0, 0, 0
            for asked in waiting:
                jobs += len(asked.jobs)
                size += sum([len(job.payload) for job in asked.jobs])
                if count and (jobs > BATCH or size > BATCH_BYTES):
                    break
                count += 1
        self._keep_waiting(waiting[count:])
        return waiting[:count]

    def _replied(self, call: _Call, sent: asyncio.Future[list[Any]]) -> None:
        """Takes the reply to a call that left at once."""
        try:
            reply = reply_of(self._client, sent)
            if reply is None:
                self._carry_out(call)
                return
            results: list[Submitted] | Exception = read_submitted(call.jobs, reply)
            self._client.calls.took("submit", perf_counter() - call.began_s)
        except StoreUnavailable:
            self._carry_out(call, repeated=True)
            return
        except Exception as error:
            results = error
        self._end(call, results)

    def _carry_out(self, call: _Call, *, repeated: bool = False) -> None:
        task = asyncio.create_task(self._run(call, repeated=repeated))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: _Call, *, repeated: bool) -> None:
        results: list[Submitted] | Exception
        try:
            try:
                reply = await self._call(call.args)
            except StoreUnavailable:
                if repeated:
                    raise
                # safe to repeat: a job that the first call took in is found by its id. Once, for a connection that had
                # gone stale; longer waits are the client's to decide.
                reply = await self._call(call.args)
            results = read_submitted(call.jobs, reply)
        except Exception as error:
            results = error
        self._end(call, results)

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

    def _end(self, call: _Call, results: list[Submitted] | Exception) -> None:
        self._calls.remove(call)
        enough = self._waiting_jobs >= ENOUGH_JOBS or self._waiting_bytes >= ENOUGH_BYTES
        if self._waiting and len(self._calls) < (self._calls_most if enough else self._calls_few):
            self._leave()  # before these are told, so that Redis is at work meanwhile
            asyncio.get_running_loop().call_soon(_tell, call.group, results)
        else:
            _tell(call.group, results)
        self._ended.set()


def _tell(group: Sequence[_Asked], results: list[Submitted] | Exception) -> None:
    at = 0
    for asked in group:
        after = at + len(asked.jobs)
        if not asked.answer.done():
            if isinstance(results, Exception):
                asked.answer.set_exception(results)
            else:
                asked.answer.set_result(results[at:after])
        at = after

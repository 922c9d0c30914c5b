"""The asynchronous client: the same methods, awaited."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from gateway.client import batches, waiting
from gateway.client.answers import (
    Accepted,
    BatchResult,
    Beaten,
    CancelAnswer,
    Ended,
    JobRecord,
    JobStatus,
    JobSummary,
    PublicKey,
    Ready,
    Stats,
    Timeline,
)
from gateway.client.asynchronous_parts import (
    AsyncApiKeys,
    AsyncDlq,
    AsyncLanes,
    AsyncSchedules,
    AsyncTargets,
    AsyncTriggers,
)
from gateway.client.bodies import JobBody, JobOptions, Span
from gateway.client.call import Call, Listing
from gateway.client.calls import completion, installation, jobs
from gateway.client.exchange import Outcome, Pause, Retries, Send, Steps, error_of, exchange, garbled, said
from gateway.client.following import FOLLOW, EventReader, LiveEvent, check_stream, query_of
from gateway.client.opening import (
    DEFAULT_URL,
    PAGE,
    RETRIES,
    TIMEOUT_S,
    connection_options,
    keyed,
    new_key,
    request_options,
    stream_options,
)
from gateway.errors import Unavailable

T = TypeVar("T")


class AsyncGateway:
    """As `Gateway`, for an event loop: its methods are awaited, its listings are for `async for`."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = httpx.AsyncClient(transport=transport, **connection_options(url, key, timeout_s))
        self._retries = Retries(most=retries, rng=random.Random())  # noqa: S311 (jitter)
        self._timeout_s, self._clock, self._sleep = timeout_s, clock, sleep
        self.dlq = AsyncDlq(self.call, self.walk)
        self.targets = AsyncTargets(self.call)
        self.triggers = AsyncTriggers(self.call, self.walk)
        self.schedules = AsyncSchedules(self.call, self.walk)
        self.lanes = AsyncLanes(self.call)
        self.apikeys = AsyncApiKeys(self.call)

    async def submit(self, target: str, payload: Any = None, **options: Unpack[JobOptions]) -> Accepted:
        """Queues a job, exactly once: what is tried again has the same idempotency key, one of its own if need be."""
        return await self.call(jobs.submit(target, payload, keyed(options, retries=self._retries.most)))

    async def submit_many(
        self, bodies: Iterable[JobBody], *, most_bytes: int = batches.MOST_BYTES
    ) -> list[BatchResult]:
        """Queues jobs, as many as there are, in batches: what became of each, in order."""
        return await self._carry_out(
            batches.submit_many(bodies, most_bytes=most_bytes, retries=self._retries, new_key=new_key)
        )

    async def run(
        self, target: str, payload: Any = None, *, timeout_s: float = 60.0, **options: Unpack[JobOptions]
    ) -> JobRecord:
        """Queues a job and waits for its end: its record, dead and cancelled jobs included. Raises WaitTimeout."""
        return await self._carry_out(
            waiting.run(
                target,
                payload,
                keyed(options, retries=self._retries.most),
                timeout_s=timeout_s,
                retries=self._retries,
                clock=self._clock,
            )
        )

    async def wait(self, job_id: str, *, timeout_s: float = math.inf) -> JobRecord:
        """The record once the job is over. Raises WaitTimeout."""
        return await self._carry_out(
            waiting.wait(job_id, timeout_s=timeout_s, retries=self._retries, clock=self._clock)
        )

    async def get(self, job_id: str) -> JobRecord:
        """The record."""
        return await self.call(jobs.get(job_id))

    async def status(self, job_id: str) -> JobStatus:
        """The short form of the record."""
        return await self.call(jobs.get_status(job_id))

    async def events(self, job_id: str) -> Timeline:
        """What happened to the job."""
        return await self.call(jobs.get_events(job_id))

    async def cancel(self, job_id: str) -> CancelAnswer:
        """Cancels a job that waits, asks one that runs to stop. Raises WrongState if it is over."""
        return await self.call(jobs.cancel(job_id))

    async def complete(self, job_id: str, token: str, result: Any = None) -> Ended:
        """Long work went well; `token` came with the attempt. Raises WrongState if it was used, or is too late."""
        return await self.call(completion.complete(job_id, token, result))

    async def fail(
        self,
        job_id: str,
        token: str,
        *,
        message: str | None = None,
        type: str | None = None,
        retry: bool = True,
        after: Span | None = None,
    ) -> Ended:
        """Long work failed; it is tried again, no sooner than `after`, unless `retry` is False."""
        return await self.call(completion.fail(job_id, token, message=message, type=type, retry=retry, after=after))

    async def heartbeat(self, job_id: str, token: str, progress: Any = None) -> Beaten:
        """Long work goes on; says by when it must be heard of again."""
        return await self.call(completion.heartbeat(job_id, token, progress))

    async def retry(self, job_id: str, *, max_attempts: int | None = None) -> JobRecord:
        """Sends a dead job back to its lane. Raises WrongState if it is not dead."""
        return await self.dlq.retry(job_id, max_attempts=max_attempts)

    def jobs(self, *, page_size: int = PAGE, **wanted: Unpack[jobs.JobFilter]) -> AsyncIterator[JobSummary]:
        """Every job that fits; pages are fetched as they are needed."""
        return self.walk(jobs.list_jobs(page_size, **wanted))

    async def follow(
        self,
        *types: str,
        target: str | None = None,
        lane: str | None = None,
        job_id: str | None = None,
    ) -> AsyncIterator[LiveEvent]:
        """What happens to jobs from now on, for ever; a stream that breaks off is taken up where it was.

        Raises Unavailable once it cannot be taken up again.
        """
        reader, query = EventReader(), query_of(types, target, lane, job_id)
        failures, previous_s = 0, 0.0
        while True:
            try:
                request = stream_options(query, reader.begin(), self._timeout_s)
                async with self._http.stream(**request) as response:
                    if not response.is_success:
                        await response.aread()
                        raise error_of(FOLLOW, response)
                    check_stream(response)
                    async for line in response.aiter_lines():
                        for event in reader.read(line):
                            failures = 0
                            yield event
                failures = 0
            except httpx.DecodingError as error:
                raise garbled(error) from error
            except (httpx.TransportError, Unavailable) as error:
                failures += 1
                if failures > self._retries.most:
                    raise Unavailable(f"the events cannot be followed any longer: {said(error)}") from error
                previous_s = self._retries.delay_s(failures, previous_s)
                await self._sleep(previous_s)

    async def signing_keys(self) -> list[PublicKey]:
        """What `verify_callback` takes where a callback has no secret of its own."""
        return (await self.call(installation.list_signing_keys())).keys

    async def rotate_signing_key(self, *, overlap: Span | None = None) -> list[PublicKey]:
        """Makes a new signing key: the public keys, it first; the one until now signs too for a while (7 days)."""
        return (await self.call(installation.rotate_signing_key(overlap))).keys

    async def ready(self) -> Ready:
        """Raises Unavailable unless work can be taken in."""
        return await self.call(installation.get_readiness())

    async def stats(self) -> Stats:
        """The installation in figures: what waits, runs and is kept, and what happened so far."""
        return await self.call(installation.get_stats())

    async def call(self, call: Call[T]) -> T:
        """The answer to a call of `gateway.client.calls`."""
        return await self._carry_out(exchange(call, self._retries))

    async def walk(self, listing: Listing[T]) -> AsyncIterator[T]:
        """The items of a listing, page by page."""
        cursor: str | None = None
        while True:
            items, cursor = listing.of(await self.call(listing.at(cursor)))
            for item in items:
                yield item
            if cursor is None:
                return

    async def aclose(self) -> None:
        """Drops the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _carry_out(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                outcome = await self._perform(steps.send(outcome))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _perform(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            await self._sleep(step.seconds)
            return None
        try:
            return await self._http.request(**request_options(step.call, self._timeout_s))
        except httpx.TransportError as error:
            return error
        except httpx.DecodingError as error:
            raise garbled(error) from error

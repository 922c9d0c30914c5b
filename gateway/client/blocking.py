"""The blocking client."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
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
from gateway.client.blocking_parts import ApiKeys, Dlq, Lanes, Schedules, Targets, Triggers
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


class Gateway:
    """Speaks to a gateway: jobs by the methods here, the rest by `dlq`, `targets`, `triggers` and so on.

    One is for many threads and for long: it keeps its connections. Close it, or use it in a `with`. Every method
    raises RequestError (by kind: NotFound, WrongState, InvalidRequest, NotAllowed) where the gateway refuses,
    Unavailable where none answers after `retries` more tries, BadAnswer where something else does.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = httpx.Client(transport=transport, **connection_options(url, key, timeout_s))
        self._retries = Retries(most=retries, rng=random.Random())  # noqa: S311 (jitter)
        self._timeout_s, self._clock, self._sleep = timeout_s, clock, sleep
        self.dlq = Dlq(self.call, self.walk)
        self.targets = Targets(self.call)
        self.triggers = Triggers(self.call, self.walk)
        self.schedules = Schedules(self.call, self.walk)
        self.lanes = Lanes(self.call)
        self.apikeys = ApiKeys(self.call)

    def submit(self, target: str, payload: Any = None, **options: Unpack[JobOptions]) -> Accepted:
        """Queues a job, exactly once: what is tried again has the same idempotency key, one of its own if need be."""
        return self.call(jobs.submit(target, payload, keyed(options, retries=self._retries.most)))

    def submit_many(self, bodies: Iterable[JobBody], *, most_bytes: int = batches.MOST_BYTES) -> list[BatchResult]:
        """Queues jobs, as many as there are, in batches: what became of each, in order."""
        return self._carry_out(
            batches.submit_many(bodies, most_bytes=most_bytes, retries=self._retries, new_key=new_key)
        )

    def run(
        self, target: str, payload: Any = None, *, timeout_s: float = 60.0, **options: Unpack[JobOptions]
    ) -> JobRecord:
        """Queues a job and waits for its end: its record, dead and cancelled jobs included. Raises WaitTimeout."""
        return self._carry_out(
            waiting.run(
                target,
                payload,
                keyed(options, retries=self._retries.most),
                timeout_s=timeout_s,
                retries=self._retries,
                clock=self._clock,
            )
        )

    def wait(self, job_id: str, *, timeout_s: float = math.inf) -> JobRecord:
        """The record once the job is over. Raises WaitTimeout."""
        return self._carry_out(waiting.wait(job_id, timeout_s=timeout_s, retries=self._retries, clock=self._clock))

    def get(self, job_id: str) -> JobRecord:
        """The record."""
        return self.call(jobs.get(job_id))

    def status(self, job_id: str) -> JobStatus:
        """The short form of the record."""
        return self.call(jobs.get_status(job_id))

    def events(self, job_id: str) -> Timeline:
        """What happened to the job."""
        return self.call(jobs.get_events(job_id))

    def cancel(self, job_id: str) -> CancelAnswer:
        """Cancels a job that waits, asks one that runs to stop. Raises WrongState if it is over."""
        return self.call(jobs.cancel(job_id))

    def complete(self, job_id: str, token: str, result: Any = None) -> Ended:
        """Long work went well; `token` came with the attempt. Raises WrongState if it was used, or is too late."""
        return self.call(completion.complete(job_id, token, result))

    def fail(
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
        return self.call(completion.fail(job_id, token, message=message, type=type, retry=retry, after=after))

    def heartbeat(self, job_id: str, token: str, progress: Any = None) -> Beaten:
        """Long work goes on; says by when it must be heard of again."""
        return self.call(completion.heartbeat(job_id, token, progress))

    def retry(self, job_id: str, *, max_attempts: int | None = None) -> JobRecord:
        """Sends a dead job back to its lane. Raises WrongState if it is not dead."""
        return self.dlq.retry(job_id, max_attempts=max_attempts)

    def jobs(self, *, page_size: int = PAGE, **wanted: Unpack[jobs.JobFilter]) -> Iterator[JobSummary]:
        """Every job that fits; pages are fetched as they are needed."""
        return self.walk(jobs.list_jobs(page_size, **wanted))

    def follow(
        self,
        *types: str,
        target: str | None = None,
        lane: str | None = None,
        job_id: str | None = None,
    ) -> Iterator[LiveEvent]:
        """What happens to jobs from now on, for ever; a stream that breaks off is taken up where it was.

        Raises Unavailable once it cannot be taken up again.
        """
        reader, query = EventReader(), query_of(types, target, lane, job_id)
        failures, previous_s = 0, 0.0
        while True:
            try:
                request = stream_options(query, reader.begin(), self._timeout_s)
                with self._http.stream(**request) as response:
                    if not response.is_success:
                        response.read()
                        raise error_of(FOLLOW, response)
                    check_stream(response)
                    for line in response.iter_lines():
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
                self._sleep(previous_s)

    def signing_keys(self) -> list[PublicKey]:
        """What `verify_callback` takes where a callback has no secret of its own."""
        return self.call(installation.list_signing_keys()).keys

    def rotate_signing_key(self, *, overlap: Span | None = None) -> list[PublicKey]:
        """Makes a new signing key: the public keys, it first; the one until now signs too for a while (7 days)."""
        return self.call(installation.rotate_signing_key(overlap)).keys

    def ready(self) -> Ready:
        """Raises Unavailable unless work can be taken in."""
        return self.call(installation.get_readiness())

    def stats(self) -> Stats:
        """The installation in figures: what waits, runs and is kept, and what happened so far."""
        return self.call(installation.get_stats())

    def call(self, call: Call[T]) -> T:
        """The answer to a call of `gateway.client.calls`."""
        return self._carry_out(exchange(call, self._retries))

    def walk(self, listing: Listing[T]) -> Iterator[T]:
        """The items of a listing, page by page."""
        cursor: str | None = None
        while True:
            items, cursor = listing.of(self.call(listing.at(cursor)))
            yield from items
            if cursor is None:
                return

    def close(self) -> None:
        """Drops the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _carry_out(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                outcome = self._perform(steps.send(outcome))
        except StopIteration as end:
            value: T = end.value
            return value

    def _perform(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return None
        try:
            return self._http.request(**request_options(step.call, self._timeout_s))
        except httpx.TransportError as error:
            return error
        except httpx.DecodingError as error:
            raise garbled(error) from error

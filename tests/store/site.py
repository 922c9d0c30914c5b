"""One store under test, on one of its partitions: submits, works and reads there, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.jobs import Claimed, Idempotency, Outcome, Record, Settlement, Submission, Submitted
from gateway.keys import JobIds
from gateway.store import Store, Worker
from gateway.store.listing import list_jobs
from tests.store.clock import Clock

LANES = ("critical", "default", "low")
LEASE_MS = 30_000
MAX_STALLS = 2


@dataclass(slots=True)
class Site:
    """Jobs go to `partition`, so that what a partition promises (order, above all) can be seen."""

    store: Store
    clock: Clock
    partition: int
    _ids: JobIds = field(default_factory=JobIds)
    _workers: dict[str, Worker] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return self.store.keyspaces[self.partition].prefix

    def job(self, target: str = "resize", *, payload: bytes = b"{}", **options: Any) -> Submission:
        """A submission with an id in this partition."""
        return Submission(self._ids.new(self.clock.now_ms, self.partition), target, payload, **options)

    def once(self, key: str, fingerprint: str = "f", *, window_ms: int = 60_000, **options: Any) -> Submission:
        """A submission with an idempotency key."""
        return self.job(idempotency=Idempotency(key, fingerprint, window_ms), **options)

    async def submit(self, *jobs: Submission) -> list[Submitted]:
        return await self.store.submit(jobs)

    async def put(self, count: int = 1, **options: Any) -> list[str]:
        """Submits jobs that are all alike: their ids, in order."""
        jobs = [self.job(**options) for _ in range(count)]
        assert {each.verdict for each in await self.store.submit(jobs)} == {"accepted"}
        return [job.job_id for job in jobs]

    def worker(self, name: str = "d1", *, lanes: Sequence[str] = LANES) -> Worker:
        """The dispatcher of that name: always the same one, since a name must not use a nonce twice."""
        if name not in self._workers:
            keyspace = self.store.keyspaces[self.partition]
            self._workers[name] = Worker(
                self.store.client, keyspace, name, tuple(lanes), lease_ms=LEASE_MS, heartbeat_ms=LEASE_MS
            )
        return self._workers[name]

    async def claim(self, worker: Worker, n: int = 100, *, suspects: bool = True) -> list[Claimed]:
        """What the worker gets by one claim."""
        return list((await worker.exchange([], worker.next_claim(n, suspects=suspects))).claimed)

    async def take(self, worker: Worker, n: int = 100) -> list[str]:
        """The ids of what the worker gets by one claim."""
        return [job.job_id for job in await self.claim(worker, n)]

    async def settle(self, worker: Worker, job: Claimed, outcome: Outcome, **facts: Any) -> str:
        """The status that the settlement is answered with."""
        return (await worker.exchange([Settlement(job.job_id, job.token, outcome, **facts)], None)).settled[0]

    async def run(self, outcome: Outcome = "succeeded", **facts: Any) -> str:
        """Claims the next job and settles it: its id."""
        worker = self.worker("runner")
        job = (await self.claim(worker, 1))[0]
        await self.settle(worker, job, outcome, **facts)
        return job.job_id

    async def lose(self, worker: Worker, n: int = 100) -> list[str]:
        """Claims, lets the leases run out and has them reaped: the ids."""
        ids = await self.take(worker, n)
        await self.reap()
        return ids

    async def reap(self, *, max_stalls: int = MAX_STALLS) -> dict[str, str]:
        """Lets every lease run out and has them reaped: what became of each job."""
        await self.clock.advance(LEASE_MS)
        return dict(await self.worker("reaper").reap(1000, max_stalls=max_stalls))

    async def record(self, job_id: str) -> Record:
        return (await self.store.find(job_id)).record

    async def status(self, job_id: str) -> str:
        return str((await self.record(job_id)).status)

    async def records(self) -> list[Record]:
        """Every job of the whole store."""
        found: list[Record] = []
        cursor: str | None = None
        while True:
            page = await list_jobs(self.store, None, limit=100, cursor=cursor)
            found.extend(page.records)
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def count(self, counter: str) -> int:
        """A counter, summed over lanes and targets."""
        counters = (await self.store.inspect()).counters
        return sum(value for name, value in counters.items() if name.split(":")[0] == counter)

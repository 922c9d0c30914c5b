"""The way of jobs through a dispatcher: from the claim that brings them to the settlement that takes them away.

A job has a slot from its claim until its attempt is over, and a lease until its outcome is written. One that cannot be
run any more when it is there (the dispatcher stops, its lease is nearly over, it was cancelled meanwhile) goes back
without an attempt.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from time import perf_counter

from gateway.dispatch.attempts import Attempts, Over
from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.endings import Settled
from gateway.dispatch.leases import Held
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.slots import Slots
from gateway.dispatch.stopping import Stop, drain
from gateway.dispatch.suspects import SuspectPlace
from gateway.dispatch.telling import Telling
from gateway.jobs import Claimed, Outcome, Settlement
from gateway.runner import Runner
from gateway.settings import GatewaySettings
from gateway.store import Store, Worker
from gateway.store.leases import Renewed

_CANCELLED_MOST = 1000
"""Cancellations of jobs that it does not have which a dispatcher remembers: of most it is told after their end."""


class Passage:
    """Its claim loops, one for each partition, and what lies between them and the attempts."""

    def __init__(
        self,
        own: GatewaySettings,
        store: Store,
        *,
        workers: Sequence[Worker],
        runner: Runner,
        telling: Telling,
        metrics: DispatchMetrics,
        rng: random.Random,
    ) -> None:
        self._lease_s = float(own.lease)
        self._telling = telling
        self._metrics = metrics
        self._draining = False
        self._cancelled_s: dict[str, float] = {}
        self.slots = Slots(own.slots)
        self.suspect_place = SuspectPlace(
            self.slots, store, lease_s=self._lease_s, max_stalls=own.max_stalls, given_on=self._look
        )
        self.attempts = Attempts(runner, done=self._done)
        self.loops = [
            ClaimLoop(
                worker,
                self.slots,
                start=self._start,
                settled=self._settled,
                rng=rng,
                partitions=len(workers),
            )
            for worker in workers
        ]

    def idle_s(self) -> float:
        """How long ago the claim loop that is worst off last turned; 0 before they run."""
        return max(loop.idle_s() for loop in self.loops)

    def wake(self, partition: int) -> None:
        """There is work in the partition."""
        self.loops[partition].wake()

    def hand_over(self, partition: int, told: bytes) -> None:
        """A submit has made the claim that stood by there, and this is what it brought."""
        self.loops[partition].hand_over(told)

    def cancel(self, job_id: str) -> None:
        """A job is to be cancelled, which most likely is here: running, held until it is due, or on its way."""
        if self.attempts.end(job_id, "cancelled"):
            return
        for loop in self.loops:
            if (job := loop.take_held(job_id)) is not None:
                self._end_unbegun(job, "cancelled")
                return
        # its claim's answer may be on its way still
        self._cancelled_s[job_id] = perf_counter()
        if len(self._cancelled_s) > _CANCELLED_MOST:
            del self._cancelled_s[next(iter(self._cancelled_s))]

    def held(self) -> list[Held]:
        """The jobs whose leases are to be renewed; from any thread."""
        return [(it.claimed.partition, job_id, it.claimed.token) for job_id, it in list(self.attempts.held.items())]

    def renewed(self, renewed: Renewed) -> None:
        """Told what came of a renewal."""
        for job_id, token in renewed.lost:
            if self.attempts.end(job_id, "lost", token=token):
                self._metrics.lost()
        for job_id, token in renewed.cancel_asked:
            self.attempts.end(job_id, "cancelled", token=token)

    async def drain(self, stop: Stop, *, at_most_s: float) -> None:
        """Lets what runs end and takes nothing new in; returns once all is written, or took too long."""
        self._draining = True
        await drain(stop, self.attempts, self.loops, at_most_s=at_most_s)

    def _start(self, jobs: Sequence[Claimed], asked_s: float) -> None:
        for job in jobs:
            if job.suspect:  # at most one: its claim reserved one place
                self.suspect_place.hold(job)
        # what is held is renewed within a third of a lease: too late, perhaps, for what was long on its way here
        late = perf_counter() - asked_s > self._lease_s / 2
        if self._draining or late:
            for job in jobs:
                self._end_unbegun(job, "released")
            return
        if self._cancelled_s:
            jobs = [job for job in jobs if not self._end_cancelled(job, asked_s)]
            if not jobs:
                return
        self._telling.claimed(jobs)
        self.attempts.start(jobs, until_s=asked_s + self._lease_s)
        # once they have begun: nobody waits for what is told of it
        asyncio.get_running_loop().call_soon(self._telling.started, jobs)

    def _end_cancelled(self, job: Claimed, asked_s: float) -> bool:
        """Ends a job whose cancellation came before the answer of its claim; whether it did."""
        if self._cancelled_s.pop(job.job_id, -math.inf) < asked_s:
            return False
        self._end_unbegun(job, "cancelled")
        return True

    def _end_unbegun(self, job: Claimed, outcome: Outcome) -> None:
        if job.suspect:
            self.suspect_place.leave(job)
        self.slots.give_back(1)
        self.loops[job.partition].settle(Settlement(job.job_id, job.token, outcome))

    def _done(self, over: Sequence[Over]) -> None:
        settlements: defaultdict[int, list[Settlement]] = defaultdict(list)
        for running, settlement in over:
            job = running.claimed
            if job.suspect:
                self.suspect_place.leave(job)
            if job.traced:
                self._telling.done(job, lost=settlement is None)
            if settlement is None:
                self.attempts.forget(job.job_id, job.token)
            else:
                settlements[job.partition].append(settlement)
        self.slots.give_back(len(over))
        for partition, own in settlements.items():
            self.loops[partition].settle(*own)

    def _settled(self, settlements: Sequence[Settlement], statuses: Sequence[str]) -> None:
        forget = self.attempts.forget
        settled: list[Settled] = [
            (running, settlement, status)
            for settlement, status in zip(settlements, statuses, strict=True)
            if (running := forget(settlement.job_id, settlement.token)) is not None
        ]
        self._telling.settled(settled)

    def _look(self) -> None:
        for loop in self.loops:  # every claim meanwhile had to pass the other suspects over
            loop.look()

"""The dispatcher: its claim loops, its attempts, its leases, its upkeep, and how it stops."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import socket
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import structlog

from gateway.dispatch.attempts import Attempts, Over
from gateway.dispatch.blocked import LoopWatch
from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.endings import Ended
from gateway.dispatch.failures import first_failure
from gateway.dispatch.leases import Held, LeaseKeeper
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.outbox import Forwarder
from gateway.dispatch.progress import Progress
from gateway.dispatch.replays import carry_replays
from gateway.dispatch.schedules import Scheduler
from gateway.dispatch.slots import Slots
from gateway.dispatch.stopping import Stop, drain, end
from gateway.dispatch.suspects import SuspectPlace
from gateway.dispatch.telling import Telling
from gateway.dispatch.upkeep import reap, upkeep
from gateway.errors import StoreError
from gateway.events import JobEvent
from gateway.jobs import Claimed, Outcome, Settlement
from gateway.liveness import HUNG_S
from gateway.registrations import Registrations
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.schedules import Schedule
from gateway.settings import Settings
from gateway.store import RetentionLimits, Store, Worker
from gateway.store.leases import Renewed
from gateway.store.standing import BEAT_S, beat
from gateway.store.wake import listen
from gateway.submission import job_facts
from gateway.transitions import Transitions

log = structlog.get_logger(__name__)

_CANCELLED_MOST = 1000
"""Cancellations of jobs that it does not have which a dispatcher remembers: of most it is told after their end."""


def dispatcher_name() -> str:
    """An id that no other dispatcher has: host and noise, short enough that a token stays under 64 bytes."""
    host = "".join(letter for letter in socket.gethostname().split(".")[0] if letter.isalnum() or letter == "-")
    return f"{host[:20] or 'host'}-{secrets.token_hex(4)}"


class Dispatcher:
    """Claims and runs jobs until it is stopped; made once, run once."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        registry: Registry,
        runner: Runner,
        redis_url: str,
        metrics: DispatchMetrics,
        wall_ms: Callable[[], int],
        rng: random.Random,
        dispatcher_id: str | None = None,
        transitions: Transitions | None = None,
    ) -> None:
        self.dispatcher_id = dispatcher_id or dispatcher_name()
        self._settings = settings
        self._lanes = settings.lanes
        self._store = store
        self._registry = registry
        self._redis_url = redis_url
        self._metrics = metrics
        self._wall_ms = wall_ms
        self._rng = rng
        self._telling = Telling(
            self.dispatcher_id,
            listeners=registry.listeners,
            metrics=metrics,
            transitions=transitions or Transitions(wanted=settings.gateway.logs_transitions),
            traces=runner.traces,
            wall_ms=wall_ms,
        )
        self._lease_ms = round(settings.gateway.lease * 1000)
        self._draining = False
        self._cancelled_s: dict[str, float] = {}
        self._slots = Slots(settings.gateway.slots)
        self._suspect_place = SuspectPlace(
            self._slots,
            store,
            lease_s=settings.gateway.lease,
            max_stalls=settings.gateway.max_stalls,
            given_on=self._look,
        )
        self._attempts = Attempts(runner, done=self._done)
        self._workers = [self._worker(partition) for partition in range(store.partitions)]
        self._loops = [
            ClaimLoop(
                worker,
                self._slots,
                start=self._start,
                settled=self._settled,
                rng=rng,
                partitions=store.partitions,
            )
            for worker in self._workers
        ]
        # with one partition there is nowhere to hand anything over to
        partitions = range(store.partitions) if store.partitions > 1 else ()
        self._forwarders = {partition: Forwarder(store, partition, rng=rng) for partition in partitions}
        self._progress = Progress(self._workers)
        runner.report = self._progress.report
        self._scheduler = self._make_scheduler()
        self._registrations = Registrations(store, registry, rng=rng, anew=self._scheduler.register_again)
        runner.refresh = self._registrations.refresh
        metrics.slots.set(settings.gateway.slots)
        metrics.active.set_function(lambda: self._attempts.active)

    @property
    def active(self) -> int:
        """Attempts under way."""
        return self._attempts.active

    def idle_s(self) -> float:
        """How long ago the claim loop that is worst off last turned; 0 before they run."""
        return max(loop.idle_s() for loop in self._loops)

    async def run(self, stop: Stop) -> None:
        """Runs until asked to stop, then drains; raises StoreMismatch if Redis holds another version's data."""
        keeper = self._lease_keeper(asyncio.get_running_loop())
        keeper.start()
        watch = LoopWatch(asyncio.get_running_loop(), holder=self._attempts.holder, blocked=self._telling.blocked)
        watch.start()
        log.info("dispatcher started", dispatcher=self.dispatcher_id, slots=self._slots.count)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work) for work in self._background()]
                await stop.drain.wait()
                await self._drain(stop)
                await end(tasks)
        except ExceptionGroup as failures:
            raise first_failure(failures) from failures
        finally:
            watch.stop()
            await asyncio.to_thread(keeper.stop)
        await self._leave()
        self._telling.flush()
        log.info("dispatcher stopped", dispatcher=self.dispatcher_id)

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        kept, gateway = self._settings.retention, self._settings.gateway
        limits = RetentionLimits(round(kept.finished * 1000), kept.finished_max, round(kept.dead * 1000))
        reap_s = min(1.0, gateway.lease / 10)
        taken_back = partial(self._telling.taken_back, self._store)
        work: list[Coroutine[Any, Any, None]] = [
            listen(
                self._store.client,
                self.dispatcher_id,
                self._store.keyspaces,
                on_wake=self._wake,
                on_cancel=self._cancel,
                on_posted=self._posted,
                on_handed=self._handed,
            ),
            carry_replays(self._store, idle_s=1.0, rng=self._rng),
            self._scheduler.run(),
            self._progress.run(),
            self._registrations.run(),
            self._suspect_place.run(),
            self._beat(),
        ]
        work += [forwarder.run() for forwarder in self._forwarders.values()]
        for loop, worker in zip(self._loops, self._workers, strict=True):
            work.append(loop.run())
            work.append(
                reap(worker, max_stalls=gateway.max_stalls, every_s=reap_s, rng=self._rng, taken_back=taken_back)
            )
            work.append(upkeep(worker, limits, every_s=1.0, rng=self._rng, removed=self._metrics.removed))
        return work

    def _make_scheduler(self) -> Scheduler:
        registry, default_lane = self._registry, self._settings.lanes.default
        listeners = registry.listeners

        def fired(schedule: Schedule, job_id: str, lane: str) -> None:
            if listeners.listening:
                listeners.emit(JobEvent("accepted", job_id, schedule.target, lane, self._wall_ms()))

        return Scheduler(
            self._store,
            registry.schedules,
            facts_of=lambda schedule: job_facts(schedule, registry.targets, default_lane),
            fired=fired,
            rng=self._rng,
        )

    def _start(self, jobs: Sequence[Claimed], asked_s: float) -> None:
        for job in jobs:
            if job.suspect:  # at most one: its claim reserved one place
                self._suspect_place.hold(job)
        # what is held is renewed within a third of a lease: too late, perhaps, for what was long on its way here
        late = perf_counter() - asked_s > self._lease_ms / 2000
        if self._draining or late:
            for job in jobs:
                self._end_unbegun(job, "released")
            return
        if self._cancelled_s:
            jobs = [job for job in jobs if not self._end_cancelled(job, asked_s)]
            if not jobs:
                return
        self._telling.claimed(jobs)
        self._attempts.start(jobs, until_s=asked_s + self._lease_ms / 1000)
        # once they have begun: nobody waits for what is told of it
        asyncio.get_running_loop().call_soon(self._telling.started, jobs)

    def _done(self, over: Sequence[Over]) -> None:
        settlements: defaultdict[int, list[Settlement]] = defaultdict(list)
        for running, settlement in over:
            job = running.claimed
            if job.suspect:
                self._suspect_place.leave(job)
            if job.traced:
                self._telling.done(job, lost=settlement is None)
            if settlement is None:
                self._attempts.forget(job.job_id, job.token)
            else:
                settlements[job.partition].append(settlement)
        self._slots.give_back(len(over))
        for partition, own in settlements.items():
            self._loops[partition].settle(*own)

    def _settled(self, settlements: Sequence[Settlement], statuses: Sequence[str]) -> None:
        forget = self._attempts.forget
        ended: list[Ended] = [
            (running, settlement, status)
            for settlement, status in zip(settlements, statuses, strict=True)
            if (running := forget(settlement.job_id, settlement.token)) is not None
        ]
        self._telling.settled(ended)

    def _look(self) -> None:
        for loop in self._loops:  # every claim meanwhile had to pass the other suspects over
            loop.look()

    def _wake(self, partition: int) -> None:
        self._loops[partition].wake()

    def _handed(self, partition: int, told: bytes) -> None:
        self._loops[partition].hand_over(told)

    def _posted(self, partition: int) -> None:
        if (forwarder := self._forwarders.get(partition)) is not None:
            forwarder.wake()

    async def _beat(self) -> None:
        """Shows that the event loop and the claim loops turn; runs until cancelled."""
        stuck_after_s = float(self._settings.gateway.stuck_after)
        while True:
            try:
                if self.idle_s() < HUNG_S:
                    await beat(self._store, self.dispatcher_id, stuck_after_s=stuck_after_s)
            except StoreError as error:
                log.debug("not shown to be alive", error=str(error))
            await asyncio.sleep(BEAT_S)

    def _cancel(self, job_id: str) -> None:
        if self._attempts.end(job_id, "cancelled"):
            return
        for loop in self._loops:
            if (job := loop.take_held(job_id)) is not None:
                self._end_unbegun(job, "cancelled")
                return
        # its claim's answer may be on its way still
        self._cancelled_s[job_id] = perf_counter()
        if len(self._cancelled_s) > _CANCELLED_MOST:
            del self._cancelled_s[next(iter(self._cancelled_s))]

    def _end_cancelled(self, job: Claimed, asked_s: float) -> bool:
        """Ends a job whose cancellation came before the answer of its claim; whether it did."""
        if self._cancelled_s.pop(job.job_id, -math.inf) < asked_s:
            return False
        self._end_unbegun(job, "cancelled")
        return True

    def _end_unbegun(self, job: Claimed, outcome: Outcome) -> None:
        if job.suspect:
            self._suspect_place.leave(job)
        self._slots.give_back(1)
        self._loops[job.partition].settle(Settlement(job.job_id, job.token, outcome))

    def _held(self) -> list[Held]:
        return [(it.claimed.partition, job_id, it.claimed.token) for job_id, it in list(self._attempts.held.items())]

    def _renewed(self, renewed: Renewed) -> None:
        for job_id, token in renewed.lost:
            if self._attempts.end(job_id, "lost", token=token):
                self._metrics.lost()
        for job_id, token in renewed.cancel_asked:
            self._attempts.end(job_id, "cancelled", token=token)

    async def _drain(self, stop: Stop) -> None:
        self._draining = True
        log.info(
            "draining",
            dispatcher=self.dispatcher_id,
            active=self._attempts.active,
            at_most_s=self._settings.gateway.drain,
            note="a second signal stops at once",
        )
        await drain(stop, self._attempts, self._loops, at_most_s=self._settings.gateway.drain)

    async def _leave(self) -> None:
        try:
            await self._scheduler.leave()
        except StoreError as error:
            log.warning("schedules not given up", error=str(error))
        for worker in self._workers:
            try:
                await worker.leave()
            except StoreError as error:
                log.warning("dispatcher left without a goodbye", error=str(error))

    def _lease_keeper(self, loop: asyncio.AbstractEventLoop) -> LeaseKeeper:
        return LeaseKeeper(
            self._redis_url,
            self._store.keyspaces,
            self.dispatcher_id,
            lease_ms=self._lease_ms,
            heartbeat_ms=self._lease_ms,
            held=self._held,
            renewed=lambda renewed: (loop.call_soon_threadsafe(self._renewed, renewed), None)[1],
        )

    def _worker(self, partition: int) -> Worker:
        return Worker(
            self._store.client,
            self._store.keyspaces[partition],
            self.dispatcher_id,
            self._store.lanes,
            lease_ms=self._lease_ms,
            heartbeat_ms=self._lease_ms,
            weights=self._lanes.shares,
            max_wait_ms={lane: round(wait * 1000) for lane, wait in self._lanes.max_wait.items()},
        )

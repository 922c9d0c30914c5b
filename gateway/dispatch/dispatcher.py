"""The dispatcher: its claim loops, its attempts, its leases, its upkeep, and how it stops."""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

from gateway.dispatch.blocked import LoopWatch
from gateway.dispatch.failures import first_failure
from gateway.dispatch.leases import LeaseKeeper
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.outbox import Forwarder
from gateway.dispatch.passage import Passage
from gateway.dispatch.progress import Progress
from gateway.dispatch.replays import carry_replays
from gateway.dispatch.schedules import Scheduler
from gateway.dispatch.stopping import Stop, end
from gateway.dispatch.telling import Telling
from gateway.dispatch.upkeep import reap, upkeep
from gateway.errors import StoreError
from gateway.events import JobEvent
from gateway.liveness import HUNG_S
from gateway.registrations import Registrations
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.schedules import Schedule
from gateway.settings import Settings
from gateway.store import RetentionLimits, Store, Worker
from gateway.store.leases import Renewed
from gateway.store.readiness import BEAT_S, beat
from gateway.store.wake import listen
from gateway.submission import job_facts
from gateway.transitions import Transitions

log = structlog.get_logger(__name__)


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
        self._workers = [self._worker(partition) for partition in range(store.partitions)]
        self.passage = Passage(
            settings.gateway,
            store,
            workers=self._workers,
            runner=runner,
            telling=self._telling,
            metrics=metrics,
            rng=rng,
        )
        # with one partition there is nowhere to hand anything over to
        partitions = range(store.partitions) if store.partitions > 1 else ()
        self._forwarders = {partition: Forwarder(store, partition, rng=rng) for partition in partitions}
        self._progress = Progress(self._workers)
        runner.report = self._progress.report
        self._scheduler = self._make_scheduler()
        self._registrations = Registrations(store, registry, rng=rng, anew=self._scheduler.file.register_again)
        runner.refresh = self._registrations.refresh
        metrics.slots.set(settings.gateway.slots)
        metrics.active.set_function(lambda: self.active)

    @property
    def active(self) -> int:
        """Attempts under way."""
        return self.passage.attempts.active

    def idle_s(self) -> float:
        """How long ago the claim loop that is worst off last turned; 0 before they run."""
        return self.passage.idle_s()

    async def run(self, stop: Stop) -> None:
        """Runs until asked to stop, then drains; raises StoreMismatch if Redis holds another version's data."""
        loop = asyncio.get_running_loop()
        keeper = self._lease_keeper(loop)
        keeper.start()
        watch = LoopWatch(loop, holder=self.passage.attempts.holder, blocked=self._telling.blocked)
        watch.start()
        log.info("dispatcher started", dispatcher=self.dispatcher_id, slots=self._settings.gateway.slots)
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
                on_wake=self.passage.wake,
                on_cancel=self.passage.cancel,
                on_posted=self._posted,
                on_handed=self.passage.hand_over,
            ),
            carry_replays(self._store, idle_s=1.0, rng=self._rng),
            self._scheduler.run(),
            self._progress.run(),
            self._registrations.run(),
            self.passage.suspect_place.run(),
            self._beat(),
        ]
        work += [forwarder.run() for forwarder in self._forwarders.values()]
        for loop, worker in zip(self.passage.loops, self._workers, strict=True):
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

    async def _drain(self, stop: Stop) -> None:
        log.info(
            "draining",
            dispatcher=self.dispatcher_id,
            active=self.active,
            at_most_s=self._settings.gateway.drain,
            note="a second signal stops at once",
        )
        await self.passage.drain(stop, at_most_s=self._settings.gateway.drain)

    async def _leave(self) -> None:
        try:
            await self._scheduler.file.leave()
        except StoreError as error:
            log.warning("schedules not given up", error=str(error))
        for worker in self._workers:
            try:
                await worker.leave()
            except StoreError as error:
                log.warning("dispatcher left without a goodbye", error=str(error))

    def _lease_keeper(self, loop: asyncio.AbstractEventLoop) -> LeaseKeeper:
        def renewed(found: Renewed) -> None:
            loop.call_soon_threadsafe(self.passage.renewed, found)

        return LeaseKeeper(
            self._redis_url,
            self._store.keyspaces,
            self.dispatcher_id,
            lease_ms=self._lease_ms,
            heartbeat_ms=self._lease_ms,
            held=self.passage.held,
            renewed=renewed,
        )

    def _worker(self, partition: int) -> Worker:
        lanes = self._settings.lanes
        return Worker(
            self._store.client,
            self._store.keyspaces[partition],
            self.dispatcher_id,
            self._store.lanes,
            lease_ms=self._lease_ms,
            heartbeat_ms=self._lease_ms,
            weights=lanes.shares,
            max_wait_ms={lane: round(wait * 1000) for lane, wait in lanes.max_wait.items()},
        )

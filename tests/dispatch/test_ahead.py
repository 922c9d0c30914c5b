"""Jobs that come a little before they are due: held, started on time and never early, given back where that fails."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time

import pytest

from gateway.dispatch.ahead import Ahead, ServerClock
from gateway.dispatch.calls import Call
from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.slots import Slots
from gateway.jobs import Claimed, Settlement, Submission
from gateway.keys import JobIds
from gateway.store import ClaimRequest, Exchange, Store, Worker
from gateway.store.claimed import Arrivals
from tests.dispatch.running import Client, client_of, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.servers import Server
from tests.waiting import ended, until_so

IDS = JobIds()


class Noting(Worker):
    """A worker that notes for how long what its claims bring is to be held; -1 for nothing."""

    held_us: list[int]

    def begin(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> None:
        """All leave by `exchange`."""

    async def exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        answer = await super().exchange(settlements, claim)
        if claim is not None:
            self.held_us.append(answer.claimed.hold_us if answer.claimed else -1)
        return answer


@dataclass(slots=True)
class Claiming:
    """A claim loop at work: what its claims brought, and by job when it started, in Unix seconds."""

    store: Store
    held_us: list[int]
    wake: Callable[[], None] = lambda: None
    started: dict[str, float] = field(default_factory=dict)

    async def late_ms(self, *delays_ms: int, each: int = 1) -> list[float]:
        """Submits so many jobs for each of these delays: how long after they were to run they started."""
        ids = [[IDS.new(1, 0) for _ in range(each)] for _ in delays_ms]
        for delay_ms, own in zip(delays_ms, ids, strict=True):
            await self.store.submit([Submission(job_id, "t", b"{}", delay_ms=delay_ms) for job_id in own])
        self.wake()
        every = [job_id for own in ids for job_id in own]
        await until_so(lambda: all(job_id in self.started for job_id in every))
        found = [(await self.store.find(job_id)).record for job_id in every]
        return [self.started[it.job_id] * 1000 - (it.run_at_ms or 0) for it in found]


@contextlib.asynccontextmanager
async def claiming(server: Server, namespace: str) -> AsyncIterator[Claiming]:
    store = await Store.open(server.url, namespace=namespace, lanes=("default",))
    worker = Noting(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    worker.held_us = []
    it, slots = Claiming(store, worker.held_us), Slots(50)

    def start(jobs: Sequence[Claimed], asked_s: float) -> None:
        now_s = time()
        for job in jobs:
            it.started[job.job_id] = now_s
            slots.give_back(1)
            loop.settle(Settlement(job.job_id, job.token, "succeeded"))

    rng = random.Random(1)
    loop = ClaimLoop(worker, slots, start=start, settled=lambda done, statuses: None, rng=rng)
    it.wake = loop.wake
    running = asyncio.create_task(loop.run())
    try:
        yield it
    finally:
        await ended(running)
        await store.aclose()


async def test_jobs_come_ahead_and_start_no_earlier_than_they_are_due(valkey_server: Server, namespace: str) -> None:
    async with claiming(valkey_server, namespace) as it:
        late_ms = await it.late_ms(*range(30, 330, 25), each=5)
        assert any(us > 0 for us in it.held_us), "none of them was there before it was due"
        assert min(late_ms) >= 0


async def test_what_is_not_to_be_had_ahead_is_asked_for_once_more_when_it_is_due(
    valkey_server: Server, namespace: str
) -> None:
    async with claiming(valkey_server, namespace) as it:
        await it.store.control_flow("t", {"concurrency": 50})
        await until_so(lambda: bool(it.held_us))
        before = len(it.held_us)
        await it.late_ms(100)
        claims = it.held_us[before : it.held_us.index(0) + 1]
        assert claims[-1] == 0, "it was there when it was due"
        assert len(claims) <= 6, "woken, ahead, in time, and once more where a timer ran early or it is polled"


def answered(there_s: float, back_s: float, *, at_s: float = 50.0, ahead_s: float = 950.0) -> tuple[Call, Arrivals]:
    """A call that was so long on both of its ways, 3 ms before what it brings is due: Redis read its clock then, which
    is ahead of `perf_counter` by that much."""
    call = Call((), None, 0, False)
    call.sent_s, call.came_s = at_s - there_s, at_s + back_s
    return call, Arrivals((-1, 0, round((at_s + ahead_s) * 1000) + 3, b"", (), 3000), 0, "d.1")


def test_jobs_start_by_the_quickest_answer_of_late_and_no_earlier_than_they_are_due() -> None:
    clock = ServerClock()
    quick, slow, much_later = answered(0.004, 0.001), answered(0.0, 0.005, at_s=54.0), answered(0.0, 0.005, at_s=90.0)
    clock.saw(*quick)
    assert clock.due_s(*quick) == pytest.approx(50.004), "its way back was 1 ms, for all that can be known"
    clock.saw(*slow)
    assert clock.due_s(*slow) == pytest.approx(54.004), "the other's way was 1 ms"
    clock.saw(*much_later)
    assert clock.due_s(*much_later) == pytest.approx(90.008), "that was too long ago"


def test_a_servers_clock_that_was_put_back_is_known_anew() -> None:
    clock, after = ServerClock(), answered(0.001, 0.002, at_s=51.0, ahead_s=949.0)
    clock.saw(*answered(0.001, 0.001))
    clock.saw(*after)
    assert clock.due_s(*after) == pytest.approx(51.005)


@dataclass(slots=True)
class Holding:
    """What comes ahead is held for `more_s` longer than it needs to be; `then` is called once something is."""

    more_s: float = 0.0
    held: asyncio.Event = field(default_factory=asyncio.Event)
    then: Callable[[], None] = lambda: None

    async def one(self, client: Client, stage: Stage, name: str) -> str:
        """The id of a job that is held: where one was not there before it was due, it has run, and another is tried."""
        while True:
            stage.log.clear()
            job_id = await client.submit("mark", {"stage": name, "label": "held"}, delay_ms=100)
            await until_so(lambda: self.held.is_set() or bool(stage.log))
            if self.held.is_set():
                return job_id


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Holding:
    it, hold, due_s = Holding(), Ahead.hold, ServerClock.due_s

    def held(self: Ahead, jobs: Sequence[Claimed], asked_s: float, *, due_s: float) -> None:
        hold(self, jobs, asked_s, due_s=due_s)
        it.held.set()
        it.then()

    def later_s(self: ServerClock, call: Call, jobs: Arrivals) -> float:
        return due_s(self, call, jobs) + (it.more_s if jobs.hold_us else 0.0)

    monkeypatch.setattr(Ahead, "hold", held)
    monkeypatch.setattr(ServerClock, "due_s", later_s)
    return it


async def test_a_held_job_goes_back_unspent_once_it_is_due_when_its_dispatcher_stops(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, holding: Holding
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace)
    async with client_of(settings) as client, dispatching(settings) as running:
        holding.more_s, holding.then = 0.5, running.stop.ask
        job_id = await holding.one(client, stage, namespace)
        await running.task
        found = await client.store.find(job_id)
        record = found.record
        assert (record.status, record.attempts, record.stalls, stage.log) == ("pending", 0, 0, [])
        assert found.timeline[-1].type == "released"
        assert found.timeline[-1].at_ms >= (record.run_at_ms or 0) + 500, "another one could have started it early"


async def test_a_held_job_is_not_started_when_it_is_cancelled(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, holding: Holding
) -> None:
    holding.more_s = 8.0
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace)) as running:
        job_id = await holding.one(running.client, stage, namespace)
        await running.client.store.cancel(job_id)
        assert (await running.client.ended(job_id, timeout_s=5.0)).status == "cancelled"
        assert stage.log == []
        await until_so(lambda: running.dispatcher.passage.slots.free == running.settings.gateway.slots)


async def test_a_job_that_is_cancelled_before_the_answer_of_its_claim_is_there_does_not_start(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace)) as running:
        exchange = Worker.exchange

        async def cancelling(self: Worker, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
            answer = await exchange(self, settlements, claim)
            for job in answer.claimed if claim is not None else ():
                running.dispatcher.passage.cancel(job.job_id)
            return answer

        monkeypatch.setattr(Worker, "exchange", cancelling)
        monkeypatch.setattr(Worker, "begin", lambda self, settlements, claim: None)
        job_id = await running.client.submit("mark", {"stage": namespace, "label": "cancelled"}, delay_ms=100)
        assert (await running.client.ended(job_id)).status == "cancelled"
        async with asyncio.timeout(5):
            await running.dispatcher.passage.attempts.wait_idle()  # nor is anything waited for by a drain
        assert stage.log == []
        await until_so(lambda: running.dispatcher.passage.slots.free == running.settings.gateway.slots)


async def test_other_jobs_run_while_one_is_held_which_has_its_slot(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, holding: Holding
) -> None:
    holding.more_s = 3.0
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, slots=2)) as running:
        client = running.client
        held = await holding.one(client, stage, namespace)
        ids = [await client.submit("hold", {"stage": namespace, "label": label}) for label in "ab"]
        await client.ended(held)
        assert stage.log[:2] == ["start a", "held"]
        stage.go.set()
        for job_id in ids:
            await client.ended(job_id)

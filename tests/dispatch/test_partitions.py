"""Several partitions share one dispatcher's slots: none starves, none holds up the others, idle ones cost little."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import orjson
import pytest

from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.looks import POLLED_PARTITIONS
from gateway.dispatch.progress import Progress
from gateway.dispatch.slots import Slots
from gateway.errors import StoreUnavailable
from gateway.jobs import Claimed, Settlement, Submission
from gateway.keys import JobIds
from gateway.store import Store, Worker
from gateway.store.connection import connect
from gateway.store.scripts import script
from gateway.store.wake import listen
from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.waiting import ended, until, until_so

IDS = JobIds()
PARTITIONS = 4


@pytest.fixture
async def shared(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Dispatching]:
    """One slot for four partitions."""
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, partitions=PARTITIONS, slots=1)) as it:
        yield it


def job(partition: int, target: str, payload: object = None) -> Submission:
    return Submission(IDS.new(time.time_ns() // 1_000_000, partition), target, orjson.dumps(payload))


async def test_no_partition_starves_behind_a_deep_one(shared: Dispatching, namespace: str, stage: Stage) -> None:
    client = shared.client
    gate = job(0, "hold", {"stage": namespace, "label": "gate"})
    await client.store.submit([gate])
    await asyncio.wait_for(stage.started.wait(), 10)
    deep = [job(0, "mark", {"stage": namespace, "label": "deep"}) for _ in range(200)]
    few = [job(partition, "mark", {"stage": namespace, "label": "few"}) for partition in (1, 2, 3) for _ in range(3)]
    await client.store.submit([*deep, *few])
    stage.go.set()
    for each in (*deep, *few):
        assert (await client.ended(each.job_id)).status == "succeeded"
    log = [word for word in stage.log if word in ("deep", "few")]
    assert (log.count("deep"), log.count("few")) == (200, 9)
    last = max(at for at, word in enumerate(log) if word == "few")
    assert last < 60, "the few of the other partitions waited for most of the deep one"


async def test_idle_partitions_are_asked_no_more_often_than_a_few(namespace: str, tmp_path: Path) -> None:
    partitions = 8 * POLLED_PARTITIONS
    with Server() as server, server.client() as client:

        def claims() -> int:
            """Each renews its dispatcher's record, once, and nothing else does for the next ten seconds."""
            stats = client.info("commandstats")
            return int(stats.get("cmdstat_pexpire", {"calls": 0})["calls"])

        async with dispatching(settings_for(tmp_path, server.url, namespace, partitions=partitions)):
            await until_so(lambda: claims() >= partitions)
            await asyncio.sleep(0.3)  # the wake-ups of its subscription
            before, began_s = claims(), time.monotonic()
            await asyncio.sleep(1.5)  # idleness itself is what is looked at
            per_s = (claims() - before) / (time.monotonic() - began_s)
    assert per_s < 3 * POLLED_PARTITIONS, f"{per_s:.0f} claims a second of an idle dispatcher"


async def test_wake_up_goes_on_to_another_when_the_slots_are_taken_elsewhere(
    shared: Dispatching, namespace: str, stage: Stage
) -> None:
    store = shared.client.store
    await store.submit([job(0, "hold", {"stage": namespace, "label": "all"})])
    await asyncio.wait_for(stage.started.wait(), 10)
    woken: asyncio.Queue[int] = asyncio.Queue()
    listening = asyncio.create_task(
        listen(store.client, "other", store.keyspaces, on_wake=woken.put_nowait, on_cancel=lambda job_id: None)
    )
    try:
        for _ in range(PARTITIONS):
            await asyncio.wait_for(woken.get(), 10)
        other = Worker(store.client, store.keyspaces[1], "other", store.lanes, lease_ms=9000, heartbeat_ms=9000)
        # later than the dispatcher's own entry, so that the dispatcher is the one who is woken
        assert not (await other.exchange([], other.next_claim(1, suspects=True))).claimed
        await store.submit([job(1, "echo")])
        assert await asyncio.wait_for(woken.get(), 10) == 1
    finally:
        await ended(listening)
        stage.go.set()


async def test_jobs_of_one_submit_run_at_once_in_whatever_partition_they_lie(shared: Dispatching) -> None:
    client = shared.client
    await client.ended(await client.submit("echo"))
    took_s: list[float] = []
    while not took_s or min(took_s) >= 1.5:  # a busy machine may take its time; a poll always does
        assert len(took_s) < 5, f"nobody was told of the outbox, and a poll found them: {took_s}"
        jobs = [job(partition, "echo", partition) for partition in (1, 0, 3, 2)]
        began_s = time.monotonic()
        await client.store.submit_together(jobs)
        # they are not there before they were handed over
        await until(lambda ids=[one.job_id for one in jobs]: _all_there(client.store, ids))  # type: ignore[misc]
        assert [(await client.ended(one.job_id)).status for one in jobs] == ["succeeded"] * 4
        took_s.append(time.monotonic() - began_s)


async def _all_there(store: Store, job_ids: Sequence[str]) -> bool:
    return None not in await store.find_many(job_ids)


async def test_partition_that_is_away_lends_its_slots_and_gets_its_jobs_later(
    valkey_server: Server, namespace: str
) -> None:
    slots, done = Slots(1), asyncio.Queue[str]()
    with Server(tcp=True) as away:
        async with _store(away, namespace) as gone, _store(valkey_server, namespace) as there:
            away.kill()
            jobs = [Submission(IDS.new(1, 0), "t", b"{}") for _ in range(6)]
            await there.submit(jobs)
            async with _claiming(gone, slots, done), _claiming(there, slots, done):
                ran = [await asyncio.wait_for(done.get(), 5) for _ in jobs]
                assert ran == [one.job_id for one in jobs]
                await asyncio.to_thread(away.start)
                await until(lambda: _configured(gone))
                late = Submission(IDS.new(1, 0), "t", b"{}")
                await gone.submit([late])
                assert await asyncio.wait_for(done.get(), 5) == late.job_id
    assert slots.free == 1


async def test_progress_is_written_where_another_partition_is_away(valkey_server: Server, namespace: str) -> None:
    with Server(tcp=True) as away:
        async with _store(away, namespace) as gone, _store(valkey_server, namespace) as there:
            away.kill()
            here = _worker(there)
            await there.submit([Submission(IDS.new(1, 0), "t", b"{}")])
            (claimed,) = (await here.exchange([], here.next_claim(1, suspects=False))).claimed
            progress = Progress([_worker(gone), here])
            writing = asyncio.create_task(progress.run())
            progress.report(claimed, {"done": 1})
            try:
                await until(lambda: _progressed(there, claimed.job_id))
            finally:
                await ended(writing)


async def _progressed(store: Store, job_id: str) -> bool:
    return (await store.find(job_id)).record.progress == b'{"done":1}'


async def test_late_answer_is_kept_to_the_slots_and_the_rest_goes_back_unspent(namespace: str) -> None:
    slots = Slots(4)
    with Server(tcp=True, extra=["--appendonly", "yes", "--appendfsync", "always"]) as server:
        async with _store(server, namespace) as store, Proxy(server) as proxy:
            behind = Store(connect(proxy.url), namespace=namespace, partitions=1, lanes=("default",))
            await load_scripts(store, "claim")
            await store.submit([Submission(IDS.new(1, 0), "t", b"{}") for _ in range(2)])
            proxy.lose_reply_to(script("claim").sha)
            loop = ClaimLoop(_worker(behind), slots, start=_never, settled=_ignore, rng=random.Random(1))
            running = asyncio.create_task(loop.run())
            try:
                await until_so(lambda: proxy.lost == 1 and slots.free == 4)
                assert slots.take(4) == 4  # others have taken what was lent
                await until(lambda: _pending(store, 2))
            finally:
                await ended(running)
                await behind.aclose()
            found = await store.inspect()
            assert found.counters.get("reclaimed:default:t", 0) == 0


@contextlib.asynccontextmanager
async def _store(server: Server, namespace: str) -> AsyncIterator[Store]:
    store = await Store.open(server.url, namespace=namespace, lanes=("default",))
    try:
        yield store
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def _claiming(store: Store, slots: Slots, done: asyncio.Queue[str]) -> AsyncIterator[None]:
    """A claim loop whose jobs succeed at once, each after a turn of the event loop."""

    def start(jobs: Sequence[Claimed], asked_s: float) -> None:
        for one in jobs:
            done.put_nowait(one.job_id)
            slots.give_back(1)
            loop.settle(Settlement(one.job_id, one.token, "succeeded"))

    loop = ClaimLoop(_worker(store), slots, start=start, settled=_ignore, rng=random.Random(1))
    running = asyncio.create_task(loop.run())
    try:
        yield
        loop.stop_claiming()
        await loop.wait_written()
    finally:
        await ended(running)


def _worker(store: Store) -> Worker:
    return Worker(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)


def _ignore(settlements: Sequence[Settlement], statuses: Sequence[str]) -> None:
    pass


def _never(jobs: Sequence[Claimed], asked_s: float) -> None:
    assert not jobs, "there was no slot for it"


async def _configured(store: Store) -> bool:
    try:
        await store.configure()
    except StoreUnavailable:
        return False
    return True


async def _pending(store: Store, count: int) -> bool:
    found = await store.inspect()
    return found.running == 0 and sum(lane.pending for lane in found.lanes.values()) == count

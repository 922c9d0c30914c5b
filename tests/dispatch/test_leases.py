"""Leases: kept whatever the event loop does, and an attempt that lost its own is ended and refused."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gateway.dispatch.leases import Held, LeaseKeeper
from gateway.keys import Keyspace
from gateway.settings import Settings
from tests.dispatch.running import Dispatching, client_of, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.servers import Server
from tests.waiting import until

WAIT_S = 60.0
LEASE_S = 1.0
KEPT_S = 1.5
"""A lease that is not to be lost, though the machine may be busy."""


@contextmanager
def reaping(settings: Settings) -> Iterator[list[tuple[str, str]]]:
    """Another dispatcher's reaper, in a thread with a loop of its own; what it took back."""
    taken: list[tuple[str, str]] = []
    stop = threading.Event()

    async def reap() -> None:
        async with client_of(settings) as client:
            worker = client.worker(settings)
            while not stop.is_set():
                taken.extend(await worker.reap(100, max_stalls=2))
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(reap()))
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join(WAIT_S)


async def test_leases_are_kept_when_the_event_loop_is_blocked_for_two_of_them(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease=f"{KEPT_S}s")
    async with dispatching(settings) as running:
        held = await running.client.submit("hold", {"stage": namespace, "label": "bystander"})
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
        with reaping(settings) as taken:
            # later, so that no request of this test is under way while nobody can read its reply
            payload = {"stage": namespace, "s": 2 * KEPT_S}
            blocker = await running.client.submit("block", payload, delay_ms=200)
            await until(lambda: _true("unblock" in stage.log))
            record = await running.client.ended(blocker)
        stage.go.set()
        assert (record.status, record.attempts) == ("succeeded", 1)
        assert ((await running.client.ended(held)).status, taken) == ("succeeded", [])
    assert stage.log == ["start bystander", "block", "unblock", "end bystander"]


async def test_lease_is_kept_for_as_long_as_an_attempt_takes(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease=f"{KEPT_S}s")
    async with dispatching(settings) as running:
        with reaping(settings) as taken:
            job_id = await running.client.submit("hold", {"stage": namespace})
            await asyncio.wait_for(stage.started.wait(), WAIT_S)
            began_s = time.monotonic()
            await until(lambda: _true(time.monotonic() - began_s > 1.5 * KEPT_S))
            stage.go.set()
            record = await running.client.ended(job_id)
    assert (record.status, record.attempts, taken) == ("succeeded", 1, [])


async def test_leases_are_renewed_again_after_a_fault_in_between(valkey_server: Server, namespace: str) -> None:
    asked: list[float] = []

    def held() -> list[Held]:
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise ValueError("planted")
        return []

    keeper = LeaseKeeper(
        valkey_server.url,
        [Keyspace(namespace, 0)],
        "d1",
        lease_ms=300,
        heartbeat_ms=1_000,
        held=held,
        renewed=lambda renewed: None,
    )
    keeper.start()
    try:
        await until(lambda: _true(len(asked) > 2))
    finally:
        await asyncio.to_thread(keeper.stop)


async def test_attempt_is_ended_when_its_lease_was_lost(settings: Settings, namespace: str, stage: Stage) -> None:
    async with dispatching(settings) as running:
        job_id = await running.client.submit("hold", {"stage": namespace}, max_attempts=2)
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
        await _take_away(running, job_id)
        # the renewal every 10 s would find out: a settlement by the old holder is refused long before
        stage.go.set()
        await until(lambda: _lost(running))
        record = await running.client.record(job_id)
        assert (record.status, record.dispatcher, record.result) == ("running", "thief", b"")


async def test_renewal_ends_the_attempt_that_lost_its_lease(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease=f"{LEASE_S}s")
    async with dispatching(settings) as running:
        job_id = await running.client.submit("hold", {"stage": namespace})
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
        await _take_away(running, job_id)
        await until(lambda: _true(stage.log.count("cancelled ") == stage.log.count("start ")))
        assert (await running.client.record(job_id)).dispatcher == "thief"
        assert running.dispatcher.active == 0


async def test_only_the_newest_attempt_counts_when_one_dispatcher_takes_its_own_lost_job_again(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease=f"{LEASE_S}s")
    with Server(tcp=True) as elsewhere:
        elsewhere.suspend()  # where it renews its leases nobody answers, so they run out
        async with dispatching(settings, lease_url=elsewhere.url) as running:
            job_id = await running.client.submit("hold", {"stage": namespace})
            await until(lambda: _true(stage.log.count("start ") == 2))
            await until(lambda: _true("cancelled " in stage.log))
            stage.go.set()
            record = await running.client.ended(job_id)
            assert (record.status, record.attempts) == ("succeeded", 1)
            assert stage.most <= 2
        elsewhere.resume()
    assert stage.log == ["start ", "start ", "cancelled ", "end "] or stage.log == [
        "start ",
        "cancelled ",
        "start ",
        "end ",
    ]


async def test_suspects_run_one_after_another_without_a_pause_between_them(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace)
    suspects = 40
    async with dispatching(settings) as running:
        stranded = [await running.client.submit("hold", {"stage": namespace, "label": str(n)}) for n in range(suspects)]
        await until(lambda: _true(stage.active == suspects))
        await _strand(running, stranded)
        stage.go.set()
        async with asyncio.timeout(12):  # with a pause of the poll after each, it would take twice as long and more
            for job_id in stranded:
                assert (await running.client.ended(job_id)).status == "succeeded"
    assert stage.log.count("start 0") == 2


async def test_suspect_that_outlives_a_lease_lets_the_next_one_run(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease=f"{LEASE_S}s")
    async with dispatching(settings) as running:
        long = [await running.client.submit("hold", {"stage": namespace, "label": str(n)}) for n in range(3)]
        await until(lambda: _true(stage.active == 3))
        await _strand(running, long)
        # one after another, each a lease later
        await until(lambda: _true([stage.log.count(f"start {n}") for n in range(3)] == [2, 2, 2]))
        stage.go.set()
        for job_id in long:
            assert (await running.client.ended(job_id)).status == "succeeded"


async def test_suspect_that_one_more_loss_would_end_keeps_its_place(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease=f"{LEASE_S}s", max_stalls=0)
    async with dispatching(settings) as running:
        jobs = [await running.client.submit("hold", {"stage": namespace, "label": str(n)}) for n in range(2)]
        await until(lambda: _true(stage.active == 2))
        await _strand(running, jobs)
        await until(lambda: _true(stage.log.count("start 0") == 2))
        place = running.dispatcher.passage.suspect_place
        await until(lambda: _true(place._from_s == math.inf))
        assert stage.log.count("start 1") == 1
        stage.go.set()
        for job_id in jobs:
            assert (await running.client.ended(job_id)).status == "succeeded"


async def _strand(running: Dispatching, job_ids: Sequence[str]) -> None:
    """Has the jobs lose their dispatcher, and be taken back as suspects."""
    for job_id in job_ids:
        running.dispatcher.passage.attempts.end(job_id, "lost")
    leases = f"{running.client.store.keyspaces[0].prefix}leases"
    await running.client.store.client.zadd(leases, dict.fromkeys(job_ids, 1))


async def _take_away(running: Dispatching, job_id: str) -> None:
    """Has the job reclaimed and claimed by another dispatcher, as if this one had been silent for a lease."""
    store = running.client.store
    keyspace = store.keyspaces[0]
    thief = running.client.worker(running.settings, "thief", lease_s=60)
    await store.client.zadd(f"{keyspace.prefix}leases", {job_id: 1})
    await thief.reap(10, max_stalls=2)
    claimed = (await thief.exchange([], thief.next_claim(1, suspects=True))).claimed
    if not claimed:  # the dispatcher itself was faster: then take it from there once more
        await _take_away(running, job_id)


async def _lost(running: Dispatching) -> bool:
    return running.sample("gateway_leases_lost_total") == 1


async def _true(fact: bool) -> bool:
    return fact

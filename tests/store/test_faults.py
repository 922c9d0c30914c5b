"""Redis as it really is: replies that get lost, servers that fall silent, die and come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from gateway.errors import StoreError, StoreMismatch, StoreUnavailable
from gateway.jobs import Settlement, Submission
from gateway.keys import JobIds
from gateway.store import Store, Worker
from gateway.store.scripts import script
from gateway.store.submitter import CALLS, ENOUGH_JOBS
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.store.site import LANES
from tests.waiting import until_so

IDS = JobIds()


@pytest.fixture
async def store(proxy: Proxy, namespace: str) -> AsyncIterator[Store]:
    """A store behind the proxy."""
    store = await Store.open(proxy.url, namespace=namespace, lanes=LANES)
    await load_scripts(store, "submit", "claim", "settle", "exchange", "cancel", "replay")
    yield store
    await store.aclose()


def job(now_ms: int = 1) -> Submission:
    return Submission(IDS.new(now_ms, 0), "resize", b"{}")


def worker_of(store: Store) -> Worker:
    return Worker(store.client, store.keyspaces[0], "d1", LANES, lease_ms=30_000, heartbeat_ms=30_000)


async def test_database_that_is_not_there_is_a_mistake_of_the_configuration(
    valkey_server: Server, namespace: str
) -> None:
    with pytest.raises(StoreMismatch, match="no database of the number"):
        await Store.open(valkey_server.url.replace("db=0", "db=99"), namespace=namespace, lanes=LANES)


async def submitted(store: Store) -> int:
    counters = (await store.inspect()).counters
    return sum(value for name, value in counters.items() if name.startswith("submitted:"))


async def test_submit_takes_each_job_in_once_when_its_reply_is_lost(store: Store, proxy: Proxy) -> None:
    jobs = [job() for _ in range(5)]
    await store.submit([job()])
    proxy.lose_reply_to(script("submit").sha)
    answers = await store.submit(jobs)
    assert proxy.lost == 1
    assert [(each.verdict, each.job_id) for each in answers] == [("accepted", each.job_id) for each in jobs]
    assert await submitted(store) == 6


async def test_claim_brings_the_same_jobs_when_its_reply_is_lost(store: Store, proxy: Proxy) -> None:
    await store.submit([job() for _ in range(6)])
    worker = worker_of(store)
    await worker.exchange([], worker.next_claim(1, suspects=True))
    request = worker.next_claim(3, suspects=True)
    proxy.lose_reply_to(script("claim").sha)
    with pytest.raises(StoreUnavailable):
        await worker.exchange([], request)
    assert (await store.inspect()).running == 4
    claimed = (await worker.exchange([], request)).claimed
    assert len(claimed) == 3
    assert (await store.inspect()).running == 4


async def test_settlement_counts_once_when_its_reply_is_lost(store: Store, proxy: Proxy) -> None:
    await store.submit([job()])
    worker = worker_of(store)
    held = (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed[0]
    settlement = Settlement(held.job_id, held.token, "succeeded")
    proxy.lose_reply_to(script("settle").sha)
    with pytest.raises(StoreUnavailable):
        await worker.exchange([settlement], None)
    assert (await worker.exchange([settlement], None)).settled == ("duplicate",)
    assert (await store.inspect()).counters["succeeded:default:resize"] == 1


@pytest.mark.parametrize("name", ["cancel", "replay"])
async def test_lost_reply_is_asked_for_again_when_it_is_a_clients(store: Store, proxy: Proxy, name: str) -> None:
    one = job()
    await store.submit([one])
    if name == "replay":
        worker = worker_of(store)
        held = (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed[0]
        await worker.exchange([Settlement(held.job_id, held.token, "dead", reason="fatal")], None)
    proxy.lose_reply_to(script(name).sha)
    if name == "replay":
        await store.replay(one.job_id)
    else:
        assert await store.cancel(one.job_id) == "cancelled"
    assert proxy.lost == 1
    assert (await store.find(one.job_id)).record.status == ("pending" if name == "replay" else "cancelled")


async def test_answers_stay_with_their_questions_when_awaits_are_cancelled(store: Store) -> None:
    jobs = [job() for _ in range(30)]
    await store.submit(jobs)

    async def ask(index: int) -> None:
        assert (await store.find(jobs[index].job_id)).record.job_id == jobs[index].job_id

    for round_ in range(40):
        tasks = [asyncio.create_task(ask(index)) for index in range(30)]
        for _ in range(round_ % 5):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in done[1::2] if each is not None] == []
        assert all(each is None or isinstance(each, asyncio.CancelledError) for each in done)


async def test_submit_gives_up_in_time_when_the_server_falls_silent_and_repeats_safely(namespace: str) -> None:
    with Server() as server:
        store = await Store.open(server.url, namespace=namespace, lanes=LANES)
        try:
            await store.submit([job()])
            jobs = [job() for _ in range(3)]
            server.suspend()
            began_s = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await store.submit(jobs)
            assert time.monotonic() - began_s < 10.0
            server.resume()
            assert {each.verdict for each in await store.submit(jobs)} == {"accepted"}
            assert await submitted(store) == 4
        finally:
            server.resume()
            await store.aclose()


async def test_what_was_not_sent_in_time_never_is_when_the_server_is_back(namespace: str) -> None:
    with Server() as server:
        store = await Store.open(server.url, namespace=namespace, lanes=LANES)
        try:
            await store.submit([job()])
            server.suspend()
            until_s = asyncio.get_running_loop().time() + 0.3
            refused = [
                asyncio.ensure_future(store.submit([job()], until_s=until_s)) for _ in range(CALLS * ENOUGH_JOBS + 50)
            ]
            for answer in await asyncio.gather(*refused, return_exceptions=True):
                assert isinstance(answer, StoreUnavailable)
            server.resume()
            await store.submit([job()])  # behind what was under way
            assert await submitted(store) == CALLS * ENOUGH_JOBS + 2
        finally:
            server.resume()
            await store.aclose()


async def test_every_acknowledged_job_is_there_when_the_server_was_killed_under_load(namespace: str) -> None:
    with Server(extra=["--appendonly", "yes"]) as server:
        store = await Store.open(server.url, namespace=namespace, lanes=LANES)
        try:
            acknowledged, refused = await _submit_while_it_dies(store, server)
            assert acknowledged
            assert refused
            found = await store.find_many(acknowledged)
            assert [each for each in found if each is None] == []
            # a refused one is in or not; repeated with its id, it is in once
            await store.submit(refused)
            total = sum(lane.pending for lane in (await store.inspect()).lanes.values())
            assert total == len(acknowledged) + len(refused)
            assert await submitted(store) == total
        finally:
            await store.aclose()


async def _submit_while_it_dies(store: Store, server: Server) -> tuple[list[str], list[Submission]]:
    acknowledged: list[str] = []
    refused: list[Submission] = []
    up = asyncio.Event()

    async def submit() -> None:
        while not (up.is_set() and acknowledged):
            batch = [job() for _ in range(3)]
            try:
                await store.submit(batch)
                acknowledged.extend(each.job_id for each in batch)
            except StoreError:
                refused.extend(batch)
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(submit())
        await until_so(lambda: len(acknowledged) > 100)
        server.kill()
        await until_so(lambda: bool(refused))
        await asyncio.to_thread(server.start)
        await store.client.ping()
        up.set()
    return acknowledged, refused

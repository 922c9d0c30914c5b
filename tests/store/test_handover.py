"""Handing over: a submit makes the claim that stands by, and says what it brought in what wakes the dispatcher."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.jobs import Claimed, Settlement, unpack_body
from gateway.store import ClaimRequest, Worker
from gateway.store.scripts import run
from gateway.store.wake import listen
from tests.store.site import Site
from tests.waiting import ended

PAYLOAD = b'{"\xc3\xa4": "a b,c\\n"}\n \n'
"""With whatever a message of several parts might be split at."""


class Heard:
    """What a dispatcher is told: what was handed over to it, and each wake-up that said nothing."""

    def __init__(self) -> None:
        self.handed: asyncio.Queue[bytes] = asyncio.Queue()
        self.woken: asyncio.Queue[int] = asyncio.Queue()

    def silent(self) -> bool:
        return self.handed.empty() and self.woken.empty()


@contextlib.asynccontextmanager
async def hearing(site: Site, worker: Worker) -> AsyncIterator[Heard]:
    """Listens as that dispatcher; past the wake-up of a new connection."""
    heard = Heard()
    task = asyncio.create_task(
        listen(
            site.store.client,
            worker.dispatcher_id,
            [worker.keyspace],
            on_wake=heard.woken.put_nowait,
            on_cancel=lambda job_id: None,
            on_handed=lambda partition, told: heard.handed.put_nowait(told),
        )
    )
    try:
        await heard.woken.get()
        yield heard
    finally:
        await ended(task)


async def stand_by(worker: Worker, n: int = 10) -> ClaimRequest:
    """Has a claim bring nothing, and the next one stand by: the former."""
    claim = worker.next_claim(n, suspects=False, stands_by=True)
    assert not (await worker.exchange([], claim)).claimed
    return claim


async def handed(heard: Heard, worker: Worker) -> list[Claimed]:
    nonce, exchange = worker.read_handed(await heard.handed.get())
    assert all(job.token == f"{job.attempt}:{nonce}" for job in exchange.claimed)
    worker.was_made(len(exchange.claimed))
    return list(exchange.claimed)


async def test_submit_hands_its_jobs_to_a_dispatcher_that_stands_by(site: Site) -> None:
    worker = site.worker()
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        ids = await site.put(3, payload=PAYLOAD, key="k")
        jobs = await handed(heard, worker)
        assert [(job.job_id, unpack_body(job.body)[1], job.key) for job in jobs] == [
            (job_id, PAYLOAD, "k") for job_id in ids
        ]
        assert {await site.status(job_id) for job_id in ids} == {"running"}
        settlements = [Settlement(job.job_id, job.token, "succeeded") for job in jobs]
        exchange = await worker.exchange(settlements, worker.next_claim(10, suspects=False))
        assert (list(exchange.settled), list(exchange.claimed)) == (["succeeded"] * 3, [])
        assert heard.silent()


async def test_hand_over_tells_when_the_next_job_is_due_however_far_that_is(site: Site) -> None:
    worker, years_ms = site.worker(), 20 * 365 * 86_400_000
    async with hearing(site, worker) as heard:
        await site.put(delay_ms=years_ms)
        await stand_by(worker)
        await site.put()
        exchange = worker.read_handed(await heard.handed.get())[1]
        assert (len(exchange.claimed), exchange.wake_in_s, exchange.more) == (1, years_ms / 1000, False)


async def test_next_claim_brings_what_was_handed_over_when_the_wake_up_was_lost(site: Site) -> None:
    worker = site.worker()
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        (job_id,) = await site.put()
        told = await heard.handed.get()
        assert await site.take(worker) == [job_id]
        assert await site.claim(worker) == []
        assert [job.job_id for job in worker.read_handed(told)[1].claimed] == [job_id]


async def test_claim_that_stood_by_is_answered_as_before_when_it_is_repeated_after_a_hand_over(site: Site) -> None:
    worker = site.worker()
    async with hearing(site, worker) as heard:
        claim = await stand_by(worker)
        (first,) = await site.put()
        await heard.handed.get()
        (second,) = await site.put()
        repeated = await worker.exchange([], claim)
        assert (list(repeated.claimed), repeated.more) == ([], False)
        assert await site.take(worker) == [first]
        assert await site.take(worker) == [second]


async def test_jobs_wait_in_their_lane_when_nobody_listens_to_the_dispatcher_that_stands_by(site: Site) -> None:
    await stand_by(site.worker())
    (job_id,) = await site.put()
    assert await site.status(job_id) == "pending"
    assert await site.take(site.worker("other")) == [job_id]


@pytest.mark.parametrize("case", ["many", "long", "later"])
async def test_dispatcher_claims_by_itself_what_is_not_for_a_wake_up(site: Site, case: str) -> None:
    worker = site.worker()
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        if case == "later":
            await site.put(delay_ms=60_000)
            await heard.woken.get()
            exchange = await worker.exchange([], worker.next_claim(10, suspects=False))
            assert (list(exchange.claimed), exchange.wake_in_s) == ([], 60.0)
        else:
            ids = await site.put(
                *((9,) if case == "many" else ()), payload=b'"%s"' % (b"x" * (70_000 * (case == "long")))
            )
            await heard.woken.get()
            assert await site.take(worker) == ids
        assert heard.silent()


async def test_hand_over_keeps_to_lanes_and_limits(site: Site) -> None:
    worker = site.worker()
    await run(site.store.client, "flow_control", site.prefix, ["slow", "concurrency", 1])
    async with hearing(site, worker) as heard:
        await stand_by(worker, n=2)
        # what came while nobody could be woken for it
        await site.store.client.zrem(f"{site.prefix}idle", worker.dispatcher_id)
        late = await site.put(2, lane="low")
        slow = await site.put(2, target="slow", lane="low")
        await site.store.client.zadd(f"{site.prefix}idle", {worker.dispatcher_id: -1})  # it stands by
        (urgent,) = await site.put(lane="critical")
        assert [job.job_id for job in await handed(heard, worker)] == [urgent, late[0]]
        assert await site.take(worker, 9) == [late[1], slow[0]]


async def test_jobs_of_a_flow_at_its_limit_are_not_handed_over(site: Site) -> None:
    worker = site.worker()
    await run(site.store.client, "flow_control", site.prefix, ["slow", "concurrency", 1])
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        first, second = await site.put(2, target="slow")
        (job,) = await handed(heard, worker)
        assert job.job_id == first
        await stand_by(worker)
        (third,) = await site.put(target="slow")
        assert {await site.status(job_id) for job_id in (second, third)} == {"pending"}
        await worker.exchange([Settlement(job.job_id, job.token, "succeeded")], None)
        await heard.woken.get()
        assert await site.take(worker) == [second]


async def test_nothing_stands_by_any_more_once_the_dispatcher_has_jobs_or_is_gone(site: Site) -> None:
    worker, key = site.worker(), f"{site.prefix}standby:d1"
    async with hearing(site, worker):
        await stand_by(worker)
        assert 0 < await site.store.client.pttl(key) <= 2000, (
            "a dispatcher that shows no life would be given jobs for long"
        )
        await site.put(9)
        assert len(await site.take(worker, 3)) == 3
        assert not await site.store.client.exists(key)
        assert len(await site.take(worker)) == 6
        assert not (await worker.exchange([], worker.next_claim(9, suspects=False, stands_by=True))).claimed
        assert await site.store.client.exists(key)
        await worker.leave()
        assert not await site.store.client.exists(key)
        (job_id,) = await site.put()
        assert await site.status(job_id) == "pending"


async def test_claim_that_a_submit_makes_is_no_sign_of_the_dispatchers_life(site: Site) -> None:
    worker, redis = site.worker(), site.store.client
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        seen = await redis.zscore(f"{site.prefix}dispatchers", "d1")
        assert seen is not None
        await site.clock.advance(worker.heartbeat_ms // 2)
        (job_id,) = await site.put()
        assert [job.job_id for job in await handed(heard, worker)] == [job_id]
        assert await redis.zscore(f"{site.prefix}dispatchers", "d1") == seen


async def test_dispatcher_is_woken_to_claim_by_itself_when_a_submit_claims_nothing_for_it(site: Site) -> None:
    worker = site.worker()
    await site.store.control_lane("low", paused=True)
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        (low,) = await site.put(lane="low")
        await heard.woken.get()
        (job_id,) = await site.put()
        await heard.woken.get()
        assert await site.take(worker) == [job_id]
        await site.store.control_lane("low", paused=False)
        assert await site.take(worker) == [low]


async def test_what_a_submit_cannot_give_waits_in_its_lane_when_nothing_is_registered_any_more(site: Site) -> None:
    worker, redis = site.worker(), site.store.client
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        # without limits no claim is answered
        await redis.hdel(f"{site.prefix}conf", "epoch")
        await redis.delete(f"{site.prefix}gist")
        ids = await site.put(2)
        await heard.woken.get()
        assert {await site.status(job_id) for job_id in ids} == {"pending"}
        await site.store.register()
        assert await site.take(worker) == ids


async def test_nothing_stands_by_for_longer_than_half_a_heartbeat(site: Site) -> None:
    worker = site.worker()
    worker.heartbeat_ms = 400
    await stand_by(worker)
    assert 0 < await site.store.client.pttl(f"{site.prefix}standby:d1") <= 200


async def test_claim_that_another_version_left_is_left_alone(site: Site) -> None:
    worker = site.worker()
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        await site.store.client.set(f"{site.prefix}standby:d1", msgspec.msgpack.encode([99, ["d1", "?"]]))
        (job_id,) = await site.put()
        await heard.woken.get()
        assert await site.take(worker) == [job_id]


async def test_job_that_was_handed_over_is_taken_back_when_its_lease_runs_out(site: Site) -> None:
    worker = site.worker()
    async with hearing(site, worker) as heard:
        await stand_by(worker)
        (job_id,) = await site.put()
        (job,) = await handed(heard, worker)
        assert await site.reap() == {job_id: "pending"}
        assert (await worker.exchange([Settlement(job_id, job.token, "succeeded")], None)).settled == ("lost",)


async def test_dispatcher_that_waited_longest_is_handed_what_comes(site: Site) -> None:
    one, other = site.worker("d1"), site.worker("d2")
    async with hearing(site, one) as first, hearing(site, other) as second:
        for worker in (one, other):
            await stand_by(worker)
            await site.clock.advance(1)
        ids = [(await site.put())[0] for _ in range(2)]
        assert [job.job_id for job in await handed(first, one)] == ids[:1]
        assert [job.job_id for job in await handed(second, other)] == ids[1:]


async def test_submit_gives_nothing_of_its_own_before_what_became_due_in_a_better_lane(site: Site) -> None:
    worker = site.worker()
    await run(site.store.client, "flow_control", site.prefix, ["slow", "concurrency", 1])
    async with hearing(site, worker) as heard:
        (due,) = await site.put(target="slow", lane="critical", delay_ms=500)
        await stand_by(worker, n=1)
        await site.clock.advance(500)
        (job_id,) = await site.put()
        await heard.woken.get()  # it says nothing, since one that was submitted for later is no longer as it was
        assert await site.take(worker, 1) == [due]
        assert await site.take(worker) == [job_id]

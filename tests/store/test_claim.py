"""Claiming: lanes strictly in order, what is due in its turn, nothing twice, nothing that has expired."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.store.repair import find_damage
from gateway.store.wake import listen
from tests.store.site import LANES, Site
from tests.waiting import ended

LONG = b'"' + b"x" * (1 << 20) + b'"'
"""Of four of these a claim's reply is full."""


async def test_lower_lane_waits_when_a_higher_one_has_jobs(site: Site) -> None:
    low, default, critical = [await site.put(4, lane=lane) for lane in ("low", "default", "critical")]
    worker = site.worker()
    assert await site.take(worker, 6) == [*critical, *default[:2]]
    late = await site.put(1, lane="critical")
    assert await site.take(worker, 100) == [*late, *default[2:], *low]


async def test_priority_decides_within_a_lane_and_never_between_lanes(site: Site) -> None:
    low = await site.put(lane="low", priority=100)
    urgent = await site.put(lane="default", priority=100)
    default = await site.put(lane="default", priority=-100)
    critical = await site.put(lane="critical", priority=-100)
    assert await site.take(site.worker()) == [*critical, *urgent, *default, *low]


async def test_lane_still_drains_last_when_it_is_no_longer_configured(site: Site) -> None:
    orphan = await site.put(lane="critical")
    kept = await site.put(lane="low")
    assert await site.take(site.worker(lanes=["low"])) == [*kept, *orphan]


async def test_claim_takes_no_more_than_it_asked_for(site: Site) -> None:
    ids = await site.put(5)
    worker = site.worker()
    exchange = await worker.exchange([], worker.next_claim(3, suspects=True))
    assert [job.job_id for job in exchange.claimed] == ids[:3]
    assert exchange.more
    exchange = await worker.exchange([], worker.next_claim(3, suspects=True))
    assert [job.job_id for job in exchange.claimed] == ids[3:]
    assert not exchange.more


@pytest.mark.parametrize("keys", [("",), ("a",), ("a", "b", "c")])
@pytest.mark.parametrize("limited", [False, True])
async def test_claim_brings_only_so_much_at_once_however_long_the_bodies_are(
    site: Site, limited: bool, keys: tuple[str, ...]
) -> None:
    if limited:
        await site.store.control_flow("resize", {"concurrency": 100})
    ids = [(await site.put(payload=LONG, key=keys[n % len(keys)]))[0] for n in range(9)]
    taken: list[str] = []
    worker = site.worker()
    while len(taken) < len(ids):
        claim = worker.next_claim(20, suspects=True)
        exchange = await worker.exchange([], claim)
        assert 0 < len(exchange.claimed) <= 4
        assert exchange.more is (len(taken) + len(exchange.claimed) < len(ids))
        assert (await worker.exchange([], claim)).claimed == exchange.claimed, "asked again, it is the same"
        taken += [job.job_id for job in exchange.claimed]
        assert {job.body for job in exchange.claimed} == {b"\n" + LONG}
    assert taken == ids


@pytest.mark.parametrize("long_lane", ["critical", "low"])
async def test_lane_has_its_share_while_another_fills_every_reply_with_long_bodies(site: Site, long_lane: str) -> None:
    worker = replace(site.worker(), dispatcher_id="weighing", weights={"critical": 60, "default": 30, "low": 10})
    lanes = {(await site.put(payload=LONG, lane=long_lane))[0]: long_lane for _ in range(24)}
    for lane in set(LANES) - {long_lane}:
        lanes |= dict.fromkeys(await site.put(20, lane=lane), lane)
    claims = [[lanes[job_id] for job_id in await site.take(worker, 50)] for _ in range(4)]
    assert {lane for claim in claims for lane in claim} == set(LANES)
    assert all(claim.count(long_lane) <= 4 for claim in claims)


async def test_lanes_share_by_their_weights_when_all_bodies_are_long(site: Site) -> None:
    worker = replace(site.worker(), dispatcher_id="weighing", weights={"critical": 50, "default": 25, "low": 25})
    lanes = {(await site.put(payload=LONG, lane=lane))[0]: lane for lane in LANES for _ in range(16)}
    claims = [{lanes[job_id] for job_id in await site.take(worker, 50)} for _ in range(4)]
    assert all(len(claim) == 1 for claim in claims), "a reply is full of one lane's"
    assert [claim.pop() for claim in claims].count("critical") == 2


@pytest.mark.parametrize("limited", [False, True])
async def test_claim_reads_only_so_much_at_once_of_what_has_expired(site: Site, limited: bool) -> None:
    if limited:
        await site.store.control_flow("resize", {"concurrency": 100})
    expired = [(await site.put(payload=LONG, expires_ms=1000))[0] for _ in range(9)]
    kept = await site.put(2)
    await site.clock.advance(1000)
    worker, dead = site.worker(), []
    for _ in range(2):
        exchange = await worker.exchange([], worker.next_claim(20, suspects=True))
        assert not exchange.claimed
        assert exchange.more
        dead.append([await site.status(job_id) for job_id in expired].count("dead"))
    assert dead == [4, 8]
    assert await site.take(worker, 20) == kept


async def test_no_job_is_given_out_twice_when_many_claim_at_once(site: Site) -> None:
    ids = await site.put(100)
    workers = [site.worker(f"d{at}") for at in range(8)]
    taken = await asyncio.gather(*(site.take(worker, 5) for worker in workers for _ in range(4)))
    flat = [job_id for each in taken for job_id in each]
    assert sorted(flat) == sorted(ids)


async def test_claimed_job_carries_what_its_attempt_needs(site: Site) -> None:
    await site.put(lane="low", key="k", max_attempts=3, payload=b"[1]")
    await site.clock.advance(250)
    job = (await site.claim(site.worker()))[0]
    assert (job.attempt, job.max_attempts, job.target, job.lane, job.key) == (1, 3, "resize", "low", "k")
    assert (job.waited_ms, job.previous_delay_ms, job.suspect, job.body) == (250, 0, False, b"\n[1]")
    record = await site.record(job.job_id)
    assert (record.status, record.attempts, record.started_ms) == ("running", 1, site.clock.now_ms)
    assert record.dispatcher == "d1"


async def test_scheduled_job_is_given_out_when_it_is_due_and_not_before(site: Site) -> None:
    ids = await site.put(delay_ms=5000)
    worker = site.worker()
    assert await site.status(ids[0]) == "scheduled"
    await site.clock.advance(4999)
    exchange = await worker.exchange([], worker.next_claim(9, suspects=True))
    assert (list(exchange.claimed), exchange.wake_in_s) == ([], 0.001)
    await site.clock.advance(1)
    assert await site.take(worker) == ids


async def test_claim_says_when_the_next_job_is_due(site: Site) -> None:
    worker = site.worker()
    assert (await worker.exchange([], worker.next_claim(1, suspects=True))).wake_in_s is None
    await site.put(delay_ms=90_000)
    await site.put(delay_ms=20_000)
    assert (await worker.exchange([], worker.next_claim(1, suspects=True))).wake_in_s == 20.0


async def test_due_jobs_go_to_the_back_of_their_priority_in_order_of_their_times(site: Site) -> None:
    third = await site.put(delay_ms=3000)
    first = await site.put(delay_ms=1000)
    second = await site.put(delay_ms=2000)
    urgent = await site.put(delay_ms=3000, priority=1)
    waiting = await site.put(3)
    await site.clock.advance(3000)
    assert await site.take(site.worker()) == [*urgent, *waiting, *first, *second, *third]


async def test_job_that_has_become_due_waits_since_then_at_the_place_that_it_has_got(site: Site) -> None:
    later = [*await site.put(delay_ms=1000), *await site.put(delay_ms=1001)]
    waiting = await site.put(2)
    await site.clock.advance(1400)
    worker = site.worker()
    assert await site.take(worker, 1) == waiting[:1]
    record = await site.record(later[0])
    assert (record.status, record.run_at_ms) == ("pending", record.created_ms + 1000)
    assert record.updated_ms == record.run_at_ms
    assert [damage async for damage in find_damage(site.store, mend=False)] == []
    jobs = await site.claim(worker)
    assert [(job.job_id, job.waited_ms) for job in jobs] == [(waiting[1], 1400), (later[0], 400), (later[1], 399)]


async def test_job_that_was_submitted_for_later_comes_first_when_it_is_given_back(site: Site) -> None:
    later = await site.put(delay_ms=1000)
    waiting = await site.put(2)
    await site.clock.advance(1000)
    worker = site.worker()
    jobs = await site.claim(worker)
    assert [job.job_id for job in jobs] == [*waiting, *later]
    for job in jobs:
        await site.settle(worker, job, "released")
    assert await site.take(worker) == [*later, *waiting]


async def test_all_come_out_in_bounded_steps_when_more_are_due_than_one_claim_promotes(site: Site) -> None:
    ids = [job_id for _ in range(3) for job_id in await site.put(500, delay_ms=1000)]
    await site.clock.advance(1000)
    worker = site.worker()
    taken = [job_id for _ in range(4) for job_id in await site.take(worker, 500)]
    assert sorted(taken) == sorted(ids)


async def test_expired_job_ends_dead_and_never_runs(site: Site) -> None:
    expired = await site.put(2, expires_ms=1000)
    alive = await site.put(expires_ms=1001)
    await site.clock.advance(1000)
    assert await site.take(site.worker()) == alive
    record = await site.record(expired[0])
    assert (record.status, record.reason, record.attempts, record.started_ms) == ("dead", "expired", 0, None)
    assert b'"expired"' in record.error


async def test_claim_gets_its_fill_when_many_expired_jobs_lie_before_it(site: Site) -> None:
    await site.put(300, expires_ms=1000)
    alive = await site.put(3)
    await site.clock.advance(1000)
    worker, taken = site.worker(), list[str]()
    for _ in range(300):
        exchange = await worker.exchange([], worker.next_claim(3, suspects=True))
        taken.extend(job.job_id for job in exchange.claimed)
        if not exchange.more:
            break
    assert taken == alive


async def test_dispatcher_is_told_of_work_and_of_cancellations(site: Site) -> None:
    woken: asyncio.Queue[int] = asyncio.Queue()
    asked: asyncio.Queue[str] = asyncio.Queue()
    worker = site.worker("sleeper")
    listening = asyncio.create_task(
        listen(site.store.client, "sleeper", site.store.keyspaces, on_wake=woken.put_nowait, on_cancel=asked.put_nowait)
    )
    try:
        async with asyncio.timeout(5):
            assert {await woken.get() for _ in site.store.keyspaces} == set(range(site.store.partitions))
            await site.claim(worker)
            await site.put()
            assert await woken.get() == site.partition
            job_id = (await site.take(worker))[0]
            await site.store.cancel(job_id)
            assert await asked.get() == job_id
    finally:
        await ended(listening)

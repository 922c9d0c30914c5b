"""Claiming ahead: jobs are given a little before they are due, as of when they are, and never earlier than that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gateway.jobs import Settlement
from gateway.store import Exchange, Worker
from tests.store.clock import KEY
from tests.store.site import LEASE_MS, Site
from tests.store.test_claim import LONG
from tests.store.test_handover import hearing

AHEAD_US = 5000


@dataclass(frozen=True, slots=True)
class Got:
    """What a claim brought, and for how long that is to be held."""

    ids: list[str]
    hold_us: int


async def ask(worker: Worker, n: int = 100, *, ahead_us: int = AHEAD_US) -> Exchange:
    return await worker.exchange([], worker.next_claim(n, suspects=True, ahead_us=ahead_us))


async def claim(worker: Worker, n: int = 100, *, ahead_us: int = AHEAD_US) -> Got:
    claimed = (await ask(worker, n, ahead_us=ahead_us)).claimed
    return Got([job.job_id for job in claimed], claimed.hold_us)


async def started_ms(site: Site, job_id: str) -> int:
    """When the running job started, as its record says (lua/records.lua)."""
    line: bytes = await site.store.client.execute_command("HGET", f"{site.prefix}state", job_id)
    status, _, _, started, _ = line.split(b"|", 4)
    assert status == b"running"
    return int(started)


async def set_us(site: Site, past_us: int) -> None:
    """Puts the clock so far past its ms."""
    await site.store.client.set(f"{site.prefix}{KEY}", site.clock.now_ms * 1000 + past_us)


async def due_in(site: Site, ms: int, count: int = 1, **options: Any) -> list[str]:
    """Jobs that are due so many ms after the time that it is then."""
    ids = await site.put(count, delay_ms=1000, **options)
    await site.clock.advance(1000 - ms)
    return sorted(ids)  # what is due at one instant comes in this order


async def test_jobs_are_given_ahead_as_of_when_they_are_due(site: Site) -> None:
    ids = await due_in(site, 4, 3)
    due_ms = site.clock.now_ms + 4
    exchange = await ask(site.worker())
    jobs = exchange.claimed
    assert ([job.job_id for job in jobs], jobs.hold_us, jobs.due_s) == (ids, 4000, due_ms / 1000)
    assert {job.waited_ms for job in jobs} == {0}
    for job_id in ids:
        assert await started_ms(site, job_id) == (await site.record(job_id)).run_at_ms == due_ms
        assert await site.store.client.zscore(f"{site.prefix}leases", job_id) == due_ms + LEASE_MS
    assert (exchange.wake_in_s, exchange.more) == (None, False)


async def test_those_of_one_ms_come_together_and_no_later_ones(site: Site) -> None:
    await set_us(site, 900)
    first = await site.put(delay_ms=1000)
    await set_us(site, 950)
    second = await site.put(delay_ms=1000)
    await site.clock.advance(1)
    later = await site.put(delay_ms=1000)
    await site.clock.advance(996)
    await set_us(site, 500)
    exchange = await ask(site.worker())
    assert [job.job_id for job in exchange.claimed] == [*first, *second]
    assert (exchange.claimed.hold_us, exchange.wake_in_s) == (2500, 0.0035), "they are due at the begin of that ms"
    await site.clock.advance(3)
    await set_us(site, 0)
    assert await claim(site.worker()) == Got(later, 1000)


async def test_what_is_due_within_this_ms_needs_no_hold(site: Site) -> None:
    await set_us(site, 900)
    ids = await site.put(delay_ms=1000)
    await site.clock.advance(1000)
    await set_us(site, 200)
    assert await claim(site.worker()) == Got(ids, 0)
    assert await started_ms(site, ids[0]) == (await site.record(ids[0])).run_at_ms


@pytest.mark.parametrize("ahead_us", [0, 3999, 4000])
async def test_nothing_is_given_ahead_by_more_than_was_asked_for(site: Site, ahead_us: int) -> None:
    ids = await due_in(site, 4)
    exchange = await ask(site.worker(), ahead_us=ahead_us)
    assert (len(exchange.claimed), exchange.wake_in_s) == (0, 0.004)
    assert await site.status(ids[0]) == "scheduled"


async def test_nothing_is_given_ahead_of_what_comes_first_of_that_ms_without_a_place_for_both(site: Site) -> None:
    await site.store.control_flow("mail", {"concurrency": 5})
    site.partition = site.store.limit_partitions("mail")[0]
    urgent = await site.put(target="mail", delay_ms=1000, priority=5)
    other = await due_in(site, 4)
    worker = site.worker()
    assert await claim(worker, 1) == Got([], 0), "it would have the only slot before the other"
    assert await claim(worker, 2) == Got(other, 4000), "there is one for each"
    await site.clock.advance(4)
    assert await claim(worker, 1) == Got(urgent, 0)


async def test_nothing_is_given_ahead_while_there_is_something_else(site: Site) -> None:
    ids = await due_in(site, 4)
    there = await site.put()
    worker = site.worker()
    assert await claim(worker) == Got(there, 0)
    assert await claim(worker) == Got(ids, 4000)


async def test_nothing_is_given_ahead_to_a_claim_of_nothing(site: Site) -> None:
    await due_in(site, 4)
    exchange = await ask(site.worker(), 0)
    assert (len(exchange.claimed), exchange.wake_in_s) == (0, 0.004)


async def test_a_claim_that_stands_by_gives_nothing_ahead(site: Site) -> None:
    worker = site.worker()
    await site.store.control_lane("low", paused=True)
    async with hearing(site, worker) as heard:
        stands_by = worker.next_claim(10, suspects=False, stands_by=True, ahead_us=AHEAD_US)
        assert not (await worker.exchange([], stands_by)).claimed
        ids = await due_in(site, 4)
        await site.put(lane="low")
        await heard.woken.get()
        assert heard.handed.empty(), "the submit has made it, and it found a lane that is paused"
    assert await site.status(ids[0]) == "scheduled"


async def test_what_is_not_given_ahead_stays_for_when_it_is_due(site: Site) -> None:
    ids = await due_in(site, 4, 3)
    worker, other = site.worker(), site.worker("d2")
    assert await claim(worker, 2) == Got(ids[:2], 4000)
    assert await claim(other, ahead_us=0) == Got([], 0)
    assert await site.status(ids[2]) == "scheduled"
    await site.clock.advance(4)
    assert await claim(other, ahead_us=0) == Got(ids[2:], 0)


async def test_the_best_come_first_where_not_all_are_given(site: Site) -> None:
    low = await site.put(delay_ms=1000, lane="low")
    plain = await site.put(delay_ms=1000)
    urgent = await site.put(delay_ms=1000, priority=5)
    critical = await site.put(delay_ms=1000, lane="critical", priority=-100)
    await site.clock.advance(998)
    assert await claim(site.worker(), 3) == Got([*critical, *urgent, *plain], 2000)
    assert await claim(site.worker(), 3) == Got(low, 2000)


async def test_lanes_with_weights_get_all_or_wait_for_their_shares(site: Site) -> None:
    worker = site.worker()
    worker.weights = {"critical": 2, "default": 1, "low": 1}
    await due_in(site, 4, 3)
    assert await claim(worker, 2) == Got([], 0)
    assert len((await claim(worker, 3)).ids) == 3


async def test_the_claim_tells_again_for_how_long_to_hold_when_repeated(site: Site) -> None:
    ids = await due_in(site, 4, 2)
    due_ms = site.clock.now_ms + 4
    worker = site.worker()
    request = worker.next_claim(10, suspects=True, ahead_us=AHEAD_US)
    first = (await worker.exchange([], request)).claimed
    again = (await worker.exchange([], request)).claimed
    assert (again, again.hold_us, again.due_s) == (first, 4000, due_ms / 1000)
    await site.clock.advance(3)
    again = (await worker.exchange([], request)).claimed
    assert (again, again.hold_us, again.due_s) == (first, 1000, due_ms / 1000)
    await site.clock.advance(1)
    again = (await worker.exchange([], request)).claimed
    assert (again, again.hold_us) == (first, 0)
    assert [await site.store.client.zscore(f"{site.prefix}leases", id) for id in ids] == [due_ms + LEASE_MS] * 2


async def test_a_repeat_holds_for_no_longer_when_the_clock_was_set_back(site: Site) -> None:
    await site.put()
    worker = site.worker()
    request = worker.next_claim(10, suspects=True, ahead_us=AHEAD_US)
    await worker.exchange([], request)
    await site.clock.advance(-3_600_000)
    assert (await worker.exchange([], request)).claimed.hold_us == 0


async def test_what_may_be_kept_back_is_not_given_ahead(site: Site) -> None:
    await site.store.control_lane("low", paused=True)
    await site.put(delay_ms=1000, target="plain", lane="low")
    await site.put(delay_ms=1000, target="plain", expires_ms=1000)
    (cancelled,) = await site.put(delay_ms=1000, target="plain")
    await site.store.cancel(cancelled)
    lasting = await site.put(delay_ms=1000, target="plain", expires_ms=1001)
    await site.clock.advance(996)
    worker = site.worker()
    assert await claim(worker) == Got(lasting, 4000)
    assert await claim(worker) == Got([], 0)


@pytest.mark.parametrize("limits", [{"concurrency": 9}, {"paused": 1}, {"breaker": 3}])
async def test_a_target_with_limits_is_given_nothing_ahead(site: Site, limits: dict[str, int]) -> None:
    await site.store.control_flow("resize", limits)
    site.partition = site.store.limit_partitions("resize")[0]
    ids = await due_in(site, 4)
    assert await claim(site.worker()) == Got([], 0)
    assert await site.status(ids[0]) == "scheduled"
    await site.clock.advance(4)
    assert await claim(site.worker()) == Got([] if limits.get("paused") else ids, 0)


async def test_a_retry_is_not_given_ahead(site: Site) -> None:
    ids = await site.put(max_attempts=3)
    assert await site.run("retry", delay_ms=1000) == ids[0]
    await site.clock.advance(996)
    worker = site.worker()
    assert await claim(worker) == Got([], 0)
    await site.clock.advance(4)
    assert await claim(worker) == Got(ids, 0)


async def test_only_so_much_is_given_ahead_however_long_the_bodies_are(site: Site) -> None:
    ids = await due_in(site, 4, 6, payload=LONG)
    worker = site.worker()
    assert await claim(worker) == Got(ids[:4], 4000)
    assert await claim(worker, ahead_us=0) == Got([], 0)
    assert await claim(worker) == Got(ids[4:], 4000)


async def test_a_job_that_was_given_ahead_and_comes_back_is_as_it_was(site: Site) -> None:
    ids = await site.put(2, delay_ms=4)
    worker = site.worker()
    jobs = (await ask(worker)).claimed
    await site.clock.advance(4)
    released = [Settlement(job.job_id, job.token, "released") for job in jobs]
    assert (await worker.exchange(released, None)).settled == ("pending", "pending")
    assert await claim(worker) == Got(ids, 0)
    assert (await site.record(ids[0])).attempts == 1

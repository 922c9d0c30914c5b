"""Depth caps of lanes: what is over is refused whole, and taken in again once there is room."""

from __future__ import annotations

import pytest

from gateway.store.repair import find_damage
from tests.store.site import Site


async def cap(site: Site, **caps: int) -> None:
    site.store.expect_rules(dead_most=0, lane_caps=caps)
    await site.store.configure()


async def test_job_is_refused_when_its_lane_is_full_and_taken_in_when_there_is_room(site: Site) -> None:
    await cap(site, low=3)
    ids = await site.put(3, lane="low")
    refused = site.job(lane="low")
    assert (await site.submit(refused))[0].verdict == "full"
    await site.put(5, lane="default")
    assert await site.take(site.worker(), 5) != []  # of the lane without a cap
    assert (await site.submit(refused))[0].verdict == "full"
    await site.store.cancel(ids[0])
    assert (await site.submit(refused))[0].verdict == "accepted"


async def test_cap_counts_what_waited_before_it_and_is_told_where_it_is_miscounted(site: Site) -> None:
    await site.put(2)
    await site.put(1, target="crop")
    await cap(site, low=1)
    await site.put(1, target="crop")
    await cap(site, default=5)
    assert [each.verdict for each in await site.submit(site.job(), site.job())] == ["accepted", "full"]
    assert (await site.store.inspect()).lanes["default"].pending == 5
    assert len(await site.take(site.worker(), 9)) == 5
    assert [each.verdict for each in await site.submit(*[site.job() for _ in range(6)])] == ["accepted"] * 5 + ["full"]
    await site.store.client.hset(f"{site.prefix}waiting", "default", 7)
    assert [damage.word async for damage in find_damage(site.store, mend=True)] == ["waiting_wrong"]
    await site.take(site.worker(), 9)
    assert await site.store.client.hlen(f"{site.prefix}waiting") == 0


async def test_repeat_is_answered_when_the_lane_is_full(site: Site) -> None:
    await cap(site, default=1)
    first = site.once("key")
    await site.submit(first)
    answers = await site.submit(first, site.once("key"), site.job())
    assert [each.verdict for each in answers] == ["accepted", "duplicate", "full"]


@pytest.mark.parametrize("lane", ["a-b", "a.b", "a_b"])
async def test_cap_is_that_of_its_lane_whatever_the_name_holds(site: Site, lane: str) -> None:
    site.store.expect_rules(dead_most=0, lane_caps={"axb": 9, lane: 1, f"x{lane}": 9})
    await site.store.configure()
    verdicts = [each.verdict for each in await site.submit(site.job(lane=lane), site.job(lane=lane))]
    assert verdicts == ["accepted", "full"]
    assert (await site.claim(site.worker(lanes=[lane])))[0].lane == lane


async def test_job_is_not_refused_when_its_submit_is_repeated_and_its_lane_is_full(site: Site) -> None:
    await cap(site, default=1)
    job = site.job()
    assert [(await site.submit(job))[0].verdict for _ in range(2)] == ["accepted", "accepted"]

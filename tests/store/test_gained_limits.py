"""A target that gains limits while jobs of it wait: none of them is served out of its turn, nor lost."""

from __future__ import annotations

import pytest

from gateway.jobs import Submission
from tests.store.site import Site

T = "paid"
OTHER = "free"


async def drain(site: Site, n: int) -> list[str]:
    """All that claims of n give, in order."""
    taken: list[str] = []
    while ids := await site.take(site.worker(), n):
        taken += ids
    return taken


async def test_retry_runs_after_older_jobs_when_limits_came_in_between(site: Site) -> None:
    first, of_key = site.job(T), [site.job(T, key="k") for _ in range(2)]
    await site.submit(first, *of_key)
    (job,) = await site.claim(site.worker(), 1)
    later = await site.put(3, target=T)
    await site.store.control_flow(T, {"paused": 0})
    await site.settle(site.worker(), job, "retry", delay_ms=300)
    await site.lose(site.worker("gone"), 1)  # the first of the key: it is back in its flow, before those in the lane
    order = await drain(site, 20)
    assert [each for each in order if each in {*later, first.job_id}] == [*later, first.job_id]
    assert [each for each in order if each in {job.job_id for job in of_key}] == [job.job_id for job in of_key]


@pytest.mark.parametrize("n", [7, 100])
async def test_every_key_keeps_its_order_when_more_wait_than_one_claim_looks_at(site: Site, n: int) -> None:
    first = site.job(T)
    jobs = [site.job((T, OTHER)[at % 2], key=("", "a", "b")[at % 3] if at % 2 == 0 else "") for at in range(2600)]
    await site.submit(first, *jobs[:100])
    (retried,) = await site.claim(site.worker(), 1)
    await site.submit(*jobs[100:])
    await site.store.control_flow(T, {"paused": 0})
    await site.settle(site.worker(), retried, "retry", delay_ms=1)
    await site.clock.advance(1)
    late = [site.job(T, key=key) for key in ("", "a", "b")]
    await site.submit(*late)

    order = await drain(site, n)
    assert len(order) == len(set(order)) == 2604
    place = {job_id: at for at, job_id in enumerate(order)}

    def in_order(those: list[Submission]) -> bool:
        places = [place[job.job_id] for job in those]
        return places == sorted(places)

    for key in ("", "a", "b"):
        assert in_order([job for job in (*jobs, *late) if job.target == T and job.key == key])
    assert in_order([job for job in jobs if job.target == OTHER])
    assert place[first.job_id] > max(place[job.job_id] for job in jobs if job.target == T and job.key == "")


async def test_suspects_keep_their_order_when_limits_come(site: Site) -> None:
    lost = await site.put(2, target=T)
    assert await site.lose(site.worker("gone"), 2) == lost
    await site.store.control_flow(T, {"paused": 0})
    later = await site.put(2, target=T)
    assert await drain(site, 1) == [*lost, *later]


async def test_keys_take_turns_in_every_lane_that_holds_jobs_of_before(site: Site) -> None:
    lanes = ("critical", "default", "low")
    earlier = {lane: await site.put(target=T, lane=lane) for lane in lanes}
    await site.store.control_flow(T, {"paused": 0})
    later = {
        lane: [*await site.put(target=T, lane=lane), *await site.put(target=T, lane=lane, key="k")] for lane in lanes
    }
    expected = []
    for lane in lanes:
        without_key, of_key = later[lane]
        expected += [*earlier[lane], of_key, without_key]
    assert await site.take(site.worker(), 100) == expected

"""Keys that are never blocked give their jobs in rounds, by class, and whatever became of the jobs before."""

from __future__ import annotations

import pytest

from gateway.jobs import Submission
from tests.store.site import Site

T = "flowing"


@pytest.fixture
async def flowing(site: Site) -> Site:
    await site.store.control_flow(T, {"concurrency": 1000})
    return site


def keyed(site: Site, *jobs: tuple[str, int]) -> list[Submission]:
    return [site.job(T, key=key, priority=priority) for key, priority in jobs]


async def test_keys_go_on_where_a_round_ended(flowing: Site) -> None:
    jobs = keyed(flowing, *[(key, 0) for key in "abcabcabc"])
    await flowing.submit(*jobs)
    worker = flowing.worker()
    assert [await flowing.take(worker, n) for n in (5, 2, 9)] == [
        [job.job_id for job in part] for part in (jobs[:5], jobs[5:7], jobs[7:])
    ]


async def test_a_key_whose_next_job_is_less_urgent_waits_for_the_others(flowing: Site) -> None:
    a, a_late, b, b_next = keyed(flowing, ("a", 0), ("a", -10), ("b", 0), ("b", 0))
    await flowing.submit(a, a_late, b, b_next)
    assert await flowing.take(flowing.worker(), 10) == [job.job_id for job in (a, b, b_next, a_late)]


async def test_a_key_whose_first_job_is_less_urgent_waits_for_the_others(flowing: Site) -> None:
    late, a, b, a_next, b_next = keyed(flowing, ("late", -10), ("a", 0), ("b", 0), ("a", 0), ("b", 0))
    await flowing.submit(late, a, b, a_next, b_next)
    assert await flowing.take(flowing.worker(), 10) == [job.job_id for job in (a, b, a_next, b_next, late)]


async def test_a_job_that_ran_before_is_told_from_those_that_did_not(flowing: Site) -> None:
    await flowing.submit(*keyed(flowing, ("a", 0), ("b", 0)))
    first = await flowing.claim(flowing.worker(), 1)
    await flowing.settle(flowing.worker(), first[0], "retry", delay_ms=1)
    await flowing.clock.advance(1)
    await flowing.submit(*keyed(flowing, ("a", 0), ("b", 0), ("c", 0)))
    claimed = await flowing.claim(flowing.worker("other"), 10)
    assert {job.job_id: job.attempt for job in claimed if job.attempt > 1} == {first[0].job_id: 2}
    assert len(claimed) == 5

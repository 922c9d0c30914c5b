"""Listings: every job once, in a stable order, over all partitions, also where scores are equal."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.jobs import Record, Status, Submission
from gateway.store.listing import list_jobs
from tests.store.limits import limits
from tests.store.site import Site


async def pages(site: Site, status: Status | None, *, limit: int) -> list[Record]:
    """Every page of a listing, one after the other."""
    found: list[Record] = []
    cursor: str | None = None
    while True:
        page = await list_jobs(site.store, status, limit=limit, cursor=cursor)
        assert len(page.records) <= limit
        found.extend(page.records)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def spread(site: Site, count: int, **options: object) -> list[str]:
    """Jobs in every partition."""
    store = site.store
    jobs = [Submission(store.new_id(site.clock.now_ms), "resize", b"1", **options) for _ in range(count)]  # type: ignore[arg-type]
    await store.submit(jobs)
    return [job.job_id for job in jobs]


async def finish_all(site: Site) -> None:
    """Runs everything that is pending, all at one instant, so that all scores are equal."""
    for partition in range(site.store.partitions):
        here = Site(site.store, site.clock, partition)
        worker = here.worker("finisher")
        for job in await here.claim(worker):
            await here.settle(worker, job, "succeeded")


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_every_job_is_met_once_when_all_scores_are_equal(site: Site, limit: int) -> None:
    ids = await spread(site, 25)
    await finish_all(site)
    found = [record.job_id for record in await pages(site, Status.SUCCEEDED, limit=limit)]
    assert sorted(found) == sorted(ids)
    assert found == [record.job_id for record in await pages(site, Status.SUCCEEDED, limit=100)]


async def test_finished_jobs_come_newest_first(site: Site) -> None:
    ids = await site.put(6)
    for _ in ids:
        await site.clock.advance(5)
        await site.run("dead", reason="fatal")
    assert [record.job_id for record in await pages(site, Status.DEAD, limit=4)] == ids[::-1]


async def test_pending_jobs_come_in_the_order_of_their_turn(site: Site) -> None:
    low, high = await site.put(3, lane="low"), await site.put(3, lane="critical")
    urgent = await site.put(lane="low", priority=1)
    assert [record.job_id for record in await pages(site, Status.PENDING, limit=2)] == [*high, *urgent, *low]


async def test_each_status_lists_its_own_jobs_and_none_lists_all(site: Site) -> None:
    ids = {
        "running": await site.put(lane="critical"),
        "scheduled": await site.put(delay_ms=60_000),
        "retrying": await site.put(priority=4),
        "succeeded": await site.put(priority=3),
        "dead": await site.put(priority=2),
    }
    await site.claim(site.worker(), 1)
    await site.run("retry", delay_ms=90_000)
    await site.run("succeeded")
    await site.run("dead", reason="fatal")
    ids["pending"], ids["cancelled"] = await site.put(), await site.put()
    await site.store.cancel(ids["cancelled"][0])
    for status in Status:
        assert [record.job_id for record in await pages(site, status, limit=10)] == ids[status], status
    assert len(await pages(site, None, limit=2)) == len(Status)


async def test_listing_goes_on_when_the_last_job_of_a_page_is_gone(site: Site) -> None:
    ids = await spread(site, 12)
    await finish_all(site)
    first = await list_jobs(site.store, Status.SUCCEEDED, limit=4)
    rest = sorted(set(ids) - {record.job_id for record in first.records})
    before = (await site.store.inspect()).finished
    for partition in range(site.store.partitions):
        # the oldest of each partition go, wherever the cursor stands
        worker = Site(site.store, site.clock, partition).worker("keeper")
        await worker.upkeep(limits(finished_most=1), most=100)
    gone = before - (await site.store.inspect()).finished
    assert gone > 0
    left = {record.job_id for record in await site.records()}
    page = await list_jobs(site.store, Status.SUCCEEDED, limit=100, cursor=first.next_cursor)
    assert sorted(record.job_id for record in page.records) == [job_id for job_id in rest if job_id in left]


async def test_listing_goes_on_when_the_last_job_of_a_page_moved_on(site: Site) -> None:
    ids = await site.put(6)
    first = await list_jobs(site.store, Status.PENDING, limit=3)
    assert await site.take(site.worker(), 3) == ids[:3]
    rest = await list_jobs(site.store, Status.PENDING, limit=100, cursor=first.next_cursor)
    assert [record.job_id for record in rest.records] == ids[3:]


async def test_listing_goes_on_when_the_last_job_of_a_page_came_back_elsewhere(site: Site) -> None:
    ids: list[str] = []
    for _ in range(4):
        await site.clock.advance(1)
        await site.put()
        ids.append(await site.run("dead", reason="fatal"))
    first = await list_jobs(site.store, Status.DEAD, limit=2)
    assert [record.job_id for record in first.records] == [ids[3], ids[2]]
    await site.clock.advance(1)
    await site.store.replay(ids[2])
    await site.run("dead", reason="fatal")  # again, and later than all others
    rest = await list_jobs(site.store, Status.DEAD, limit=10, cursor=first.next_cursor)
    assert [record.job_id for record in rest.records] == [ids[1], ids[0]]
    assert [record.job_id for record in await pages(site, Status.DEAD, limit=3)] == [ids[2], ids[3], ids[1], ids[0]]


async def test_filter_keeps_what_it_accepts_and_the_cursor_goes_on_behind_it(site: Site) -> None:
    red, blue = await site.put(4, target="red"), await site.put(4, target="blue")
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await list_jobs(site.store, None, limit=3, cursor=cursor, keep=lambda record: record.target == "blue")
        found.extend(record.job_id for record in page.records)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == blue
    assert not set(found) & set(red)


@pytest.mark.parametrize("cursor", ["nonsense", "e30=", "W10=", "\N{SNOWMAN}"])
async def test_foreign_cursor_is_refused(site: Site, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        await list_jobs(site.store, Status.DEAD, limit=1, cursor=cursor)

"""Taking back what was lost: at its old place, marked suspect, and dead only by its own doing."""

from __future__ import annotations

import pytest

from gateway.store.leases import Renewed, extend
from tests.store.site import LEASE_MS, Site


async def test_job_keeps_place_and_attempt_when_its_lease_ran_out(site: Site) -> None:
    ids = await site.put(3)
    lost = await site.lose(site.worker(), 1)
    await site.put(1)
    assert lost == ids[:1]
    record = await site.record(ids[0])
    assert (record.status, record.attempts, record.stalls) == ("pending", 0, 0)
    jobs = await site.claim(site.worker("other"))
    assert [job.job_id for job in jobs][:3] == ids
    assert [job.suspect for job in jobs] == [True, False, False, False]
    assert jobs[0].attempt == 1


async def test_job_is_left_alone_while_its_lease_runs(site: Site) -> None:
    await site.put()
    worker = site.worker()
    await site.claim(worker)
    await site.clock.advance(LEASE_MS - 1)
    assert await worker.reap(10, max_stalls=2) == []


async def test_reap_takes_no_more_than_it_may(site: Site) -> None:
    await site.put(5)
    worker = site.worker()
    await site.claim(worker)
    await site.clock.advance(LEASE_MS)
    taken = [len(await worker.reap(2, max_stalls=2)) for _ in range(4)]
    assert taken == [2, 2, 1, 0]


async def test_claim_holds_one_suspect_at_most_and_fills_up_with_others(site: Site) -> None:
    suspects = await site.put(4)
    await site.lose(site.worker())
    others = await site.put(3)
    jobs = await site.claim(site.worker("other"))
    assert [job.job_id for job in jobs] == [suspects[0], *others]
    # each further claim may hold one more
    assert await site.take(site.worker("third")) == suspects[1:2]


async def test_record_of_a_suspect_says_what_it_waits_for(site: Site) -> None:
    (job_id,) = await site.put(1)
    assert (await site.store.find(job_id)).record.waiting_on == ""
    await site.lose(site.worker())
    assert (await site.store.find(job_id)).record.waiting_on == "suspect"
    await site.claim(site.worker("other"))
    assert (await site.store.find(job_id)).record.waiting_on == ""


async def test_claim_passes_suspects_by_when_it_may_hold_none(site: Site) -> None:
    suspects = await site.put(2)
    await site.lose(site.worker())
    others = await site.put(2)
    other = site.worker("other")
    assert [job.job_id for job in await site.claim(other, suspects=False)] == others
    assert await site.take(other) == suspects[:1]


async def test_suspects_of_a_lower_lane_wait_for_a_higher_lane(site: Site) -> None:
    low = await site.put(lane="low")
    await site.lose(site.worker())
    critical = await site.put(lane="critical")
    assert await site.take(site.worker("other"), 1) == critical
    assert await site.take(site.worker("other"), 1) == low


async def test_job_is_dead_stalled_when_it_stalls_more_often_than_it_may(site: Site) -> None:
    ids = await site.put()
    statuses, stalls = [], []
    for at in range(4):
        await site.claim(site.worker(f"d{at}"))
        statuses.append((await site.reap())[ids[0]])
        stalls.append((await site.record(ids[0])).stalls)
    assert statuses == ["pending", "pending", "pending", "dead"]
    assert stalls == [0, 1, 2, 3]
    record = await site.record(ids[0])
    assert (record.reason, b'"stalled"' in record.error) == ("stalled", True)
    assert await site.take(site.worker("last")) == []


async def test_bystanders_live_when_they_are_lost_beside_a_job_that_kills(site: Site) -> None:
    ids = await site.put(5)
    killer = ids[2]
    for at in range(40):
        worker = site.worker(f"d{at}")
        jobs = await site.claim(worker)
        if killer in {job.job_id for job in jobs}:
            await site.reap()
            continue
        for job in jobs:
            await site.settle(worker, job, "succeeded")
    statuses = {job_id: await site.status(job_id) for job_id in ids}
    assert statuses == {job_id: "dead" if job_id == killer else "succeeded" for job_id in ids}


@pytest.mark.parametrize("outcome", ["retry", "succeeded"])
async def test_mark_is_cleared_when_an_attempt_of_a_suspect_ends(site: Site, outcome: str) -> None:
    ids = await site.put()
    for at in range(3):
        await site.lose(site.worker(f"d{at}"))
    assert (await site.record(ids[0])).stalls == 2
    await site.run("retry" if outcome == "retry" else "succeeded", delay_ms=1)
    assert (await site.record(ids[0])).stalls == 0
    if outcome == "retry":
        await site.clock.advance(1)
        assert not (await site.claim(site.worker("d9")))[0].suspect
        assert await site.reap() == {ids[0]: "pending"}


async def test_mark_stays_when_a_suspect_is_released(site: Site) -> None:
    ids = await site.put()
    await site.lose(site.worker())
    await site.run("released")
    job = (await site.claim(site.worker("other")))[0]
    assert (job.job_id, job.suspect, job.attempt) == (ids[0], True, 1)


async def test_extend_keeps_what_is_held_and_tells_what_is_not(site: Site) -> None:
    await site.put(3)
    worker = site.worker()
    kept, asked, lost = await site.claim(worker)
    await site.store.cancel(asked.job_id)
    await site.clock.advance(LEASE_MS - 1)
    held = [(kept.job_id, kept.token), (asked.job_id, asked.token), (lost.job_id, "1:somebody.else")]
    renewed = await extend(site.store.client, site.prefix, "d1", held, lease_ms=LEASE_MS, heartbeat_ms=LEASE_MS)
    assert renewed == Renewed(lost=(held[2],), cancel_asked=(held[1],))
    await site.clock.advance(1)
    assert await worker.reap(10, max_stalls=2) == [(lost.job_id, "pending")]


async def test_dispatchers_are_counted_until_their_heartbeat_runs_out_or_they_leave(site: Site) -> None:
    for name in ("d1", "d2"):
        await site.claim(site.worker(name))
    assert (await site.store.inspect()).dispatchers == 2
    await site.worker("d1").leave()
    assert (await site.store.inspect()).dispatchers == 1
    await site.clock.advance(LEASE_MS)
    assert (await site.store.inspect()).dispatchers == 0

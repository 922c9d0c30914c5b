"""Taking dead jobs away for good: they and nothing else."""

from __future__ import annotations

import pytest

from gateway.errors import NotFound, WrongState
from gateway.store.purge import DeadFilter, purge, purge_some
from tests.store.dump import dump
from tests.store.site import Site


async def test_purged_job_leaves_nothing_behind_but_the_counters(site: Site) -> None:
    before = await dump(site.store)
    (job_id,) = await site.put(payload=b"[1]")
    await site.run("dead", reason="fatal", error='{"type":"boom","message":"no"}')
    await purge(site.store, job_id)
    assert {key for key in await dump(site.store) if key not in before and job_id in key} == set()
    assert (await site.store.inspect()).dead == 0
    with pytest.raises(NotFound):
        await purge(site.store, job_id)


async def test_job_that_is_not_dead_stays(site: Site) -> None:
    (waiting,) = await site.put()
    with pytest.raises(WrongState, match="is not dead"):
        await purge(site.store, waiting)
    assert await site.status(waiting) == "pending"
    (running,) = await site.take(site.worker())
    with pytest.raises(WrongState):
        await purge(site.store, running)
    assert await site.status(running) == "running"


async def test_filter_takes_what_fits_and_goes_on_from_its_cursor(site: Site) -> None:
    old = await site.put(2)
    await site.run("dead", reason="fatal")
    await site.run("dead", reason="fatal")
    await site.clock.advance(1000)
    late = await site.put(1)
    await site.run("dead", reason="fatal")
    other = await site.put(1, target="other")
    await site.run("dead", reason="fatal")
    alive = await site.put(1)
    died_ms = (await site.record(late[0])).finished_ms
    assert died_ms is not None

    assert await purge_some(site.store, DeadFilter(reason="stalled")) == (0, None)
    assert await purge_some(site.store, DeadFilter(dead_after_ms=died_ms + 1)) == (0, None)
    assert await purge_some(site.store, DeadFilter(target="other")) == (1, None)
    assert await purge_some(site.store, DeadFilter(dead_before_ms=died_ms - 1)) == (2, None)
    assert {record.job_id for record in await site.records()} == {*late, *alive}
    assert await purge_some(site.store, DeadFilter()) == (1, None)
    assert [record.job_id for record in await site.records()] == alive
    assert not {*old, *other} & {record.job_id for record in await site.records()}


async def test_what_one_call_looks_through_is_bounded(site: Site) -> None:
    await site.put(510)
    worker = site.worker()
    for job in await site.claim(worker, 510):
        await site.settle(worker, job, "dead", reason="fatal")
    purged, cursor = await purge_some(site.store, DeadFilter())
    assert purged == 500
    assert await purge_some(site.store, DeadFilter(), cursor=cursor) == (10, None)

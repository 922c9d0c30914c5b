"""Cancelling: at once where a job waits, asked for where it runs, refused where it is over."""

from __future__ import annotations

import pytest

from gateway.errors import NotFound, WrongState
from gateway.jobs import Outcome
from tests.store.site import Site


@pytest.mark.parametrize("delay_ms", [0, 60_000])
async def test_waiting_job_is_cancelled_at_once_and_never_runs(site: Site, delay_ms: int) -> None:
    ids = await site.put(delay_ms=delay_ms)
    assert await site.store.cancel(ids[0]) == "cancelled"
    assert await site.status(ids[0]) == "cancelled"
    await site.clock.advance(delay_ms)
    assert await site.take(site.worker()) == []


async def test_retrying_job_is_cancelled_at_once(site: Site) -> None:
    ids = await site.put()
    await site.run("retry", delay_ms=5000)
    assert await site.store.cancel(ids[0]) == "cancelled"
    await site.clock.advance(5000)
    assert await site.take(site.worker()) == []


async def test_suspect_is_cancelled_and_the_next_one_takes_its_place(site: Site) -> None:
    ids = await site.put(2)
    await site.lose(site.worker())
    assert await site.store.cancel(ids[0]) == "cancelled"
    assert await site.take(site.worker("other")) == ids[1:]


async def test_running_job_is_only_asked_to_stop(site: Site) -> None:
    ids = await site.put()
    worker = site.worker()
    job = (await site.claim(worker))[0]
    assert await site.store.cancel(ids[0]) == "asked"
    record = await site.record(ids[0])
    assert (record.status, record.cancel_asked) == ("running", True)
    assert await site.settle(worker, job, "cancelled") == "cancelled"
    assert await site.status(ids[0]) == "cancelled"


@pytest.mark.parametrize("outcome", ["retry", "released"])
async def test_cancellation_wins_when_the_attempt_would_run_again(site: Site, outcome: Outcome) -> None:
    ids = await site.put()
    worker = site.worker()
    job = (await site.claim(worker))[0]
    await site.store.cancel(ids[0])
    assert await site.settle(worker, job, outcome, delay_ms=1) == "cancelled"
    assert await site.status(ids[0]) == "cancelled"


async def test_cancellation_wins_when_the_lease_runs_out(site: Site) -> None:
    ids = await site.put()
    await site.claim(site.worker())
    await site.store.cancel(ids[0])
    assert await site.reap() == {ids[0]: "cancelled"}


@pytest.mark.parametrize("outcome", ["succeeded", "dead"])
async def test_outcome_stands_when_it_comes_before_the_cancellation(site: Site, outcome: Outcome) -> None:
    ids = await site.put()
    worker = site.worker()
    job = (await site.claim(worker))[0]
    await site.store.cancel(ids[0])
    assert await site.settle(worker, job, outcome, reason="fatal" if outcome == "dead" else "") == outcome


@pytest.mark.parametrize("end", ["succeeded", "dead", "cancelled"])
async def test_cancel_is_refused_when_the_job_is_over(site: Site, end: Outcome) -> None:
    ids = await site.put()
    await site.run(end)
    with pytest.raises(WrongState, match=ids[0]):
        await site.store.cancel(ids[0])
    assert await site.status(ids[0]) == end


async def test_cancel_is_refused_when_there_is_no_such_job(site: Site) -> None:
    with pytest.raises(NotFound):
        await site.store.cancel(site.job().job_id)
    with pytest.raises(NotFound):
        await site.store.cancel("nonsense")

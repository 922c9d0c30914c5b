"""Sending a dead job back: the same job, fresh, at the back of its lane."""

from __future__ import annotations

import pytest

from gateway.errors import NotFound, WrongState
from gateway.jobs import Outcome
from tests.store.site import Site

ERROR = '{"type":"boom","message":"no"}'


async def test_dead_job_starts_anew_at_the_back_of_its_priority(site: Site) -> None:
    ids = await site.put(lane="low", priority=3, payload=b"[1]")
    await site.run("dead", reason="fatal", error=ERROR, result='"half"')
    others = await site.put(2, lane="low", priority=3)
    await site.clock.advance(10)
    await site.store.replay(ids[0])
    record = await site.record(ids[0])
    assert (record.status, record.attempts, record.stalls, record.reason) == ("pending", 0, 0, "")
    assert (record.error, record.result, record.finished_ms, record.payload) == (b"", b"", None, b"[1]")
    assert (record.lane, record.priority) == ("low", 3)
    assert await site.take(site.worker()) == [*others, *ids]


async def test_replayed_job_has_all_its_attempts_again_and_may_die_again(site: Site) -> None:
    ids = await site.put(max_attempts=1)
    for _ in range(2):
        await site.run("retry", delay_ms=1)
        assert (await site.record(ids[0])).reason == "exhausted"
        await site.store.replay(ids[0])
    await site.run("succeeded", result="1")
    assert await site.status(ids[0]) == "succeeded"


async def test_replayed_job_is_no_suspect_when_it_died_of_stalls(site: Site) -> None:
    ids = await site.put()
    for at in range(4):
        await site.lose(site.worker(f"d{at}"))
    await site.store.replay(ids[0])
    assert not (await site.claim(site.worker("d9")))[0].suspect
    assert await site.reap() == {ids[0]: "pending"}


async def test_replayed_job_runs_when_it_had_died_of_age(site: Site) -> None:
    ids = await site.put(expires_ms=1000)
    await site.clock.advance(1000)
    assert await site.take(site.worker()) == []
    await site.store.replay(ids[0])
    assert await site.take(site.worker()) == ids


async def test_timeline_keeps_what_was_before_the_replay(site: Site) -> None:
    ids = await site.put()
    await site.run("dead", reason="fatal", error=ERROR)
    await site.store.replay(ids[0])
    types = [entry.type for entry in (await site.store.find(ids[0])).timeline]
    assert types == ["accepted", "started", "dead", "replayed"]


@pytest.mark.parametrize("end", ["succeeded", "cancelled", "retry"])
async def test_replay_is_refused_when_the_job_is_not_dead(site: Site, end: Outcome) -> None:
    ids = await site.put()
    await site.run(end, delay_ms=1)
    before = await site.status(ids[0])
    with pytest.raises(WrongState, match=ids[0]):
        await site.store.replay(ids[0])
    assert await site.status(ids[0]) == before


async def test_replay_is_refused_when_there_is_no_such_job(site: Site) -> None:
    with pytest.raises(NotFound):
        await site.store.replay(site.job().job_id)

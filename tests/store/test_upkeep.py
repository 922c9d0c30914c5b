"""Retention: what is finished goes by age and by count, in bounded batches, and leaves nothing behind."""

from __future__ import annotations

import re

import pytest

from gateway.errors import NotFound
from gateway.jobs import Callback, Options
from tests.store.dump import dump
from tests.store.limits import NOTHING_KEPT, limits
from tests.store.site import LEASE_MS, Site

KEPT = re.compile(r"\d+:(conf|gist|counted|state|stats|seq|dispatchers|dispatcher:.*|idem:.*)")


async def test_job_is_removed_when_it_is_older_than_its_kind_is_kept(site: Site) -> None:
    done, dead = (await site.put(2))[:2]
    await site.run("succeeded")
    await site.run("dead", reason="fatal")
    worker = site.worker()
    await site.clock.advance(1000)
    assert (await worker.upkeep(limits(finished_ms=1001, dead_ms=1001), most=10))[0] == 0
    assert (await worker.upkeep(limits(finished_ms=1000), most=10))[0] == 1
    assert await site.status(dead) == "dead"
    with pytest.raises(NotFound):
        await site.record(done)
    assert (await worker.upkeep(limits(dead_ms=1000), most=10))[0] == 1


async def test_oldest_are_removed_when_there_are_more_than_are_kept(site: Site) -> None:
    ids = await site.put(5)
    for _ in ids:
        await site.run("succeeded")
        await site.clock.advance(1)
    await site.worker().upkeep(limits(finished_most=2), most=10)
    assert {record.job_id for record in await site.records()} == set(ids[3:])


async def test_target_loses_its_own_oldest_dead_when_it_has_more_than_are_kept(site: Site) -> None:
    site.store.expect_rules(dead_most=2, lane_caps={})
    await site.store.configure()
    other = await site.put(target="other")
    ids = await site.put(5)
    for _ in range(6):
        await site.run("dead", reason="fatal")
        await site.clock.advance(1)
    assert {record.job_id for record in await site.records()} == {*other, *ids[-2:]}
    assert await site.count("evicted") == 3


async def test_removal_goes_in_bounded_batches_and_says_when_there_is_more(site: Site) -> None:
    await site.put(10)
    for at in range(10):
        await site.run("succeeded" if at % 2 else "dead", reason="" if at % 2 else "fatal")
    worker = site.worker()
    answers = [await worker.upkeep(NOTHING_KEPT, most=4) for _ in range(4)]
    assert [(removed, more) for removed, more, _ in answers] == [(4, True), (4, True), (2, False), (0, False)]
    assert await site.count("evicted") == 10


async def test_no_key_is_left_when_every_job_is_finished_and_removed(site: Site) -> None:
    options = Options(callback=Callback("https://example.com/"))
    for lane in ("critical", "default", "low"):
        await site.put(6, lane=lane, key="k", expires_ms=10 * LEASE_MS, options=options)
    await site.submit(site.once("key", options=options), site.job(delay_ms=1, options=options))
    await site.clock.advance(1)
    await site.lose(site.worker("lost"))
    for outcome in ("succeeded", "retry", "released", "cancelled", "dead"):
        await site.run(outcome, delay_ms=1, result='{"n":1}', reason="fatal" if outcome == "dead" else "")
    for record in await site.records():
        if not record.status.finished:
            await site.store.cancel(record.job_id)
    while (waiting := [record for record in await site.records() if not record.status.finished]) and waiting:
        await site.run("succeeded")
    while (await site.worker("keeper").upkeep(NOTHING_KEPT, most=7))[1]:
        pass
    for name in ("lost", "runner", "keeper", "reaper"):
        await site.worker(name).leave()
    assert await site.records() == []
    assert [name for name in await dump(site.store) if not KEPT.fullmatch(name)] == []


async def test_attempt_log_is_capped_and_keeps_the_latest(site: Site) -> None:
    ids = await site.put(max_attempts=1000)
    error = '{"type":"boom","message":"' + "x" * 900 + '"}'
    for _ in range(60):
        await site.run("retry", delay_ms=1, error=error)
        await site.clock.advance(1)
    timeline = (await site.store.find(ids[0])).timeline
    retries = [entry for entry in timeline if entry.type == "retrying"]
    assert retries[-1].attempt == 60
    assert 5 <= len(retries) <= 20


async def test_silent_dispatchers_are_counted_once(site: Site) -> None:
    for name in ("d1", "d2"):
        await site.claim(site.worker(name))
    keeper = site.worker("keeper")
    assert (await keeper.upkeep(limits(), most=1))[2] == 0
    await site.clock.advance(LEASE_MS)
    assert (await keeper.upkeep(limits(), most=1))[2] == 2
    assert (await keeper.upkeep(limits(), most=1))[2] == 0
    assert (await site.store.inspect()).counters["dispatcher_deaths"] == 2

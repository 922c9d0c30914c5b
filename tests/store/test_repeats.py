"""Every script may be called again as it was: the same answer, and nothing changed. Replies do get lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gateway.jobs import Callback, Options, Outcome, Settlement
from gateway.store.scripts import Arg, run
from tests.store.dump import dump
from tests.store.limits import limits
from tests.store.site import Site

OPTIONS = Options(callback=Callback("https://example.com/hook"))


async def assert_repeatable(site: Site, call: Callable[[], Awaitable[Any]]) -> None:
    """Calls three times: the answers are alike, and only the first call changes anything."""
    before = await dump(site.store)
    answer = await call()
    after = await dump(site.store)
    assert after != before, "the call did nothing, so its repeat proves nothing"
    for _ in range(2):
        assert await call() == answer
        assert await dump(site.store) == after


async def test_submit_is_the_same_job_when_repeated(site: Site) -> None:
    jobs = [site.job(), site.job(delay_ms=50), site.once("key", options=OPTIONS, expires_ms=9)]
    await assert_repeatable(site, lambda: site.store.submit(jobs))


async def test_submit_is_the_same_job_when_repeated_after_it_ran(site: Site) -> None:
    job = site.once("key")
    await site.submit(job)
    await site.run()
    after = await dump(site.store)
    answer = (await site.submit(job))[0]
    assert (answer.verdict, answer.job_id, answer.status) == ("accepted", job.job_id, "succeeded")
    assert await dump(site.store) == after


async def test_claim_gives_the_same_jobs_when_repeated(site: Site) -> None:
    await site.put(2, expires_ms=1, options=OPTIONS)
    await site.put(6, options=OPTIONS)
    await site.put(2, delay_ms=1)
    await site.clock.advance(1)
    worker = site.worker()
    request = worker.next_claim(5, suspects=True)

    async def claim() -> Any:
        return (await worker.exchange([], request)).claimed

    await assert_repeatable(site, claim)


async def test_claims_beside_each_other_give_each_its_own_jobs_when_repeated(site: Site) -> None:
    await site.put(9)
    worker = site.worker()
    asked = [worker.next_claim(3, suspects=True, place=1), worker.next_claim(2, suspects=True, place=2)]
    first, second = [list((await worker.exchange([], request)).claimed) for request in asked]
    for _ in range(2):
        for request, jobs in zip(asked, (first, second), strict=True):
            assert (await worker.exchange([], request)).claimed == jobs
    later = worker.next_claim(3, suspects=True, place=2)
    third = list((await worker.exchange([], later)).claimed)
    assert (await worker.exchange([], asked[0])).claimed == first
    assert (await worker.exchange([], later)).claimed == third
    assert len({job.job_id for job in (*first, *second, *third)}) == 8


async def test_claim_gives_only_what_is_still_held_when_repeated_late(site: Site) -> None:
    await site.put(3)
    worker = site.worker()
    request = worker.next_claim(3, suspects=True)
    jobs = (await worker.exchange([], request)).claimed
    await site.settle(worker, jobs[0], "succeeded")
    assert [job.job_id for job in (await worker.exchange([], request)).claimed] == [job.job_id for job in jobs[1:]]
    await site.reap()
    assert not (await worker.exchange([], request)).claimed


async def test_claim_gives_its_jobs_a_whole_lease_when_repeated_late(site: Site) -> None:
    (job_id,) = await site.put()
    worker = site.worker()
    request = worker.next_claim(1, suspects=True)
    await worker.exchange([], request)
    await site.clock.advance(worker.lease_ms - 1)
    assert len((await worker.exchange([], request)).claimed) == 1
    assert await site.store.client.zscore(f"{site.prefix}leases", job_id) == site.clock.now_ms + worker.lease_ms


@pytest.mark.parametrize("outcome", ["succeeded", "retry", "dead", "released", "cancelled"])
async def test_settle_is_a_duplicate_when_repeated(site: Site, outcome: Outcome) -> None:
    await site.put(2, options=OPTIONS)
    worker = site.worker()
    jobs = await site.claim(worker)
    settlements = [
        Settlement(job.job_id, job.token, outcome, 5, "fatal" if outcome == "dead" else "", '{"n":1}', "")
        for job in jobs
    ]
    first = (await worker.exchange(settlements, None)).settled
    assert "duplicate" not in first
    after = await dump(site.store)
    for _ in range(2):
        assert (await worker.exchange(settlements, None)).settled == ("duplicate", "duplicate")
        assert await dump(site.store) == after


async def test_settle_and_claim_are_the_same_when_repeated_together(site: Site) -> None:
    await site.put(4)
    worker = site.worker()
    held = await site.claim(worker, 2)
    settlements = [Settlement(job.job_id, job.token, "succeeded") for job in held]
    request = worker.next_claim(2, suspects=True)

    async def exchange() -> Any:
        return (await worker.exchange(settlements, request)).claimed

    await assert_repeatable(site, exchange)


@pytest.mark.parametrize("running", [False, True])
async def test_cancel_gives_the_same_answer_when_repeated(site: Site, running: bool) -> None:
    ids = await site.put(options=OPTIONS)
    if running:
        await site.claim(site.worker())
    await assert_repeatable(site, lambda: run(site.store.client, "cancel", site.prefix, [ids[0], "nonce"]))


async def test_replay_makes_one_run_when_repeated(site: Site) -> None:
    ids = await site.put(options=OPTIONS)
    await site.run("dead", reason="fatal")
    await assert_repeatable(site, lambda: run(site.store.client, "replay", site.prefix, ["nonce", 0, *ids]))
    await site.run("succeeded")
    await site.run("succeeded")
    after = await dump(site.store)
    assert await run(site.store.client, "replay", site.prefix, ["nonce", 0, *ids]) == [b"replayed"]
    assert await dump(site.store) == after


async def test_reap_finds_nothing_more_when_repeated(site: Site) -> None:
    await site.put(3)
    await site.claim(site.worker())
    assert len(await site.reap()) == 3
    after = await dump(site.store)
    assert await site.worker("reaper").reap(100, max_stalls=2) == []
    assert await dump(site.store) == after


async def test_extend_changes_nothing_when_repeated(site: Site) -> None:
    await site.put(2)
    worker = site.worker()
    jobs = await site.claim(worker)
    held = [(job.job_id, job.token) for job in jobs]
    await site.clock.advance(10)

    async def extend() -> Any:
        args: list[Arg] = [worker.dispatcher_id, worker.lease_ms, worker.heartbeat_ms, msgspec.msgpack.encode(held)]
        return await run(site.store.client, "extend", site.prefix, args)

    await assert_repeatable(site, extend)


async def test_upkeep_removes_nothing_more_when_repeated(site: Site) -> None:
    await site.put(3)
    for _ in range(3):
        await site.run("succeeded")
    worker = site.worker()
    kept = limits(finished_most=1)
    assert (await worker.upkeep(kept, most=10))[0] == 2
    after = await dump(site.store)
    assert await worker.upkeep(kept, most=10) == (0, False, 0)
    assert await dump(site.store) == after

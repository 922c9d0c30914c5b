"""Settling: what an outcome makes of a job, and that only the token's holder writes one."""

from __future__ import annotations

import pytest

from gateway.jobs import Outcome, Settlement
from gateway.store.targets import inspect_targets
from tests.store.site import LEASE_MS, Site

ERROR = '{"type":"timeout","message":"too slow"}'


async def test_succeeded_job_keeps_its_result(site: Site) -> None:
    ids = await site.put()
    worker = site.worker()
    job = (await site.claim(worker))[0]
    await site.clock.advance(40)
    assert await site.settle(worker, job, "succeeded", result='{"n":1.0}') == "succeeded"
    record = await site.record(ids[0])
    assert (record.status, record.result, record.error, record.attempts) == ("succeeded", b'{"n":1.0}', b"", 1)
    assert record.finished_ms == site.clock.now_ms


@pytest.mark.parametrize("reason", ["fatal", "no_target", "exhausted"])
async def test_dead_job_keeps_its_reason_and_error(site: Site, reason: str) -> None:
    await site.put()
    record = await site.record(await site.run("dead", reason=reason, error=ERROR))
    assert (record.status, record.reason, record.error) == ("dead", reason, ERROR.encode())


async def test_retry_waits_its_delay_then_takes_a_place_at_the_back(site: Site) -> None:
    first = await site.put()
    await site.run("retry", delay_ms=5000, error=ERROR)
    record = await site.record(first[0])
    assert (record.status, record.attempts, record.error) == ("retrying", 1, ERROR.encode())
    assert record.next_attempt_ms == site.clock.now_ms + 5000
    await site.clock.advance(4999)
    assert await site.take(site.worker()) == []
    others = await site.put(2)
    await site.clock.advance(1)
    jobs = await site.claim(site.worker())
    assert [job.job_id for job in jobs] == [*others, *first]
    assert (jobs[-1].attempt, jobs[-1].previous_delay_ms) == (2, 5000)


async def test_retry_keeps_its_priority(site: Site) -> None:
    urgent = await site.put(priority=5)
    await site.run("retry", delay_ms=1)
    others = await site.put(2)
    await site.clock.advance(1)
    assert await site.take(site.worker()) == [*urgent, *others]


async def test_job_is_dead_exhausted_when_its_last_attempt_asks_for_a_retry(site: Site) -> None:
    ids = await site.put(max_attempts=2)
    await site.run("retry", delay_ms=1)
    await site.clock.advance(1)
    await site.run("retry", delay_ms=1, error=ERROR)
    record = await site.record(ids[0])
    assert (record.status, record.reason, record.attempts, record.error) == ("dead", "exhausted", 2, ERROR.encode())


async def test_released_job_keeps_its_place_and_its_attempt(site: Site) -> None:
    ids = await site.put(3)
    worker = site.worker()
    jobs = await site.claim(worker, 2)
    await site.put(1)
    assert await site.settle(worker, jobs[1], "released") == "pending"
    assert await site.settle(worker, jobs[0], "released") == "pending"
    assert (await site.record(ids[0])).attempts == 0
    assert (await site.take(worker))[:3] == ids
    assert (await site.record(ids[0])).attempts == 1


async def test_each_job_with_a_key_is_counted_when_those_of_two_claims_end_in_turn(site: Site) -> None:
    await site.store.control_flow("resize", {"paused": 0})  # its running jobs are counted from now on
    worker = site.worker()
    for key in "ab":
        await site.put(4, key=key)
    first, second = await site.claim(worker, 4), await site.claim(worker, 4)
    turns = [job for pair in zip(first, second, strict=True) for job in pair]
    ended = [Settlement(job.job_id, job.token, "succeeded", result="1") for job in turns]
    assert set((await worker.exchange(ended, None)).settled) == {"succeeded"}
    assert await site.count("succeeded") == 8
    assert (await inspect_targets(site.store, ["resize"]))["resize"].running == 0


async def test_settlement_counts_when_the_lease_ran_out_and_nobody_took_the_job(site: Site) -> None:
    await site.put()
    worker = site.worker()
    job = (await site.claim(worker))[0]
    await site.clock.advance(10 * LEASE_MS)
    assert await site.settle(worker, job, "succeeded") == "succeeded"


@pytest.mark.parametrize("outcome", ["succeeded", "retry", "dead", "released", "cancelled"])
async def test_old_token_is_refused_when_the_job_was_taken_back(site: Site, outcome: Outcome) -> None:
    ids = await site.put()
    worker, other = site.worker("slow"), site.worker("other")
    stale = (await site.claim(worker))[0]
    await site.reap()
    assert await site.settle(worker, stale, outcome, result='"late"') == "lost"
    assert await site.status(ids[0]) == "pending"
    fresh = (await site.claim(other))[0]
    assert fresh.token != stale.token
    assert await site.settle(worker, stale, outcome, result='"late"') == "lost"
    assert await site.status(ids[0]) == "running"
    assert await site.settle(other, fresh, "succeeded", result='"mine"') == "succeeded"
    assert await site.settle(worker, stale, outcome, result='"late"') == "lost"
    assert (await site.record(ids[0])).result == b'"mine"'


async def test_each_settlement_of_a_batch_stands_for_itself(site: Site) -> None:
    await site.put(4)
    worker = site.worker()
    jobs = await site.claim(worker)
    settlements = [
        Settlement(jobs[0].job_id, jobs[0].token, "succeeded"),
        Settlement(jobs[1].job_id, "1:somebody.else", "succeeded"),
        Settlement("01a22780-5329-7d03-8458-4c0287d2a7ff", "1:d1.1", "dead"),
        Settlement(jobs[2].job_id, jobs[2].token, "dead", reason="fatal"),
        Settlement(jobs[0].job_id, jobs[0].token, "succeeded"),
    ]
    answers = (await worker.exchange(settlements, None)).settled
    assert answers == ("succeeded", "lost", "lost", "dead", "duplicate")
    assert [await site.status(job.job_id) for job in jobs] == ["succeeded", "running", "dead", "running"]


async def test_settle_and_claim_go_in_one_exchange(site: Site) -> None:
    ids = await site.put(2)
    worker = site.worker()
    job = (await site.claim(worker, 1))[0]
    done = Settlement(job.job_id, job.token, "succeeded")
    exchange = await worker.exchange([done], worker.next_claim(1, suspects=True))
    assert exchange.settled == ("succeeded",)
    assert [each.job_id for each in exchange.claimed] == ids[1:]


async def test_timeline_tells_every_step_in_order(site: Site) -> None:
    ids = await site.put(max_attempts=3)
    await site.run("retry", delay_ms=10, error=ERROR)
    await site.clock.advance(10)
    await site.run("succeeded")
    found = await site.store.find(ids[0])
    types = [entry.type for entry in found.timeline]
    assert types == ["accepted", "started", "retrying", "started", "succeeded"]
    assert [entry.attempt for entry in found.timeline] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize("delay_ms", [0, 5])
@pytest.mark.parametrize("key", ["|", "||x", "x|||", "a||||b", "||lim|default|x", "|||k|other|low|0||"])
async def test_key_may_hold_what_parts_the_facts_of_a_job(site: Site, key: str, delay_ms: int) -> None:
    ids = await site.put(2, key=key, delay_ms=delay_ms)
    await site.clock.advance(delay_ms)
    worker = site.worker()
    jobs = await site.claim(worker)
    assert [job.key for job in jobs] == [key, key]
    for job in jobs:
        assert await site.settle(worker, job, "succeeded") == "succeeded"
    record = await site.record(ids[0])
    assert (record.status, record.target, record.lane, record.key) == ("succeeded", "resize", "default", key)
    assert await site.count("succeeded") == 2


@pytest.mark.parametrize("key", ["", "k", "=k", "|"])
@pytest.mark.parametrize("outcome", ["succeeded", "retry", "dead"])
async def test_job_whose_line_an_earlier_version_wrote_is_settled(site: Site, key: str, outcome: Outcome) -> None:
    ids = await site.put(key=key)
    worker = site.worker()
    job = (await site.claim(worker))[0]
    line = str(await site.store.client.hget(f"{site.prefix}state", ids[0]), "utf-8")  # type: ignore[arg-type]
    body = await site.store.client.get(f"{site.prefix}b:{ids[0]}")
    assert isinstance(body, bytes)
    whole = line.split(f"{'k' if key else ''}|resize|default|")[0] + body.decode().partition("\n")[0]
    await site.store.client.hset(f"{site.prefix}state", ids[0], whole)
    expected = {"retry": "retrying"}.get(outcome, outcome)
    assert await site.settle(worker, job, outcome, delay_ms=5, error=ERROR) == expected
    record = await site.record(ids[0])
    assert (record.status, record.target, record.key, record.max_attempts) == (
        expected,
        "resize",
        key,
        job.max_attempts,
    )


@pytest.mark.parametrize("key", ["", "|=k"])
async def test_running_job_whose_payload_was_lost_is_settled(site: Site, key: str) -> None:
    ids = await site.put(3, key=key)
    worker = site.worker()
    jobs = await site.claim(worker)
    for job_id in ids:
        await site.store.client.delete(f"{site.prefix}b:{job_id}")
    outcomes: list[Outcome] = ["dead", "retry", "released"]
    statuses = [await site.settle(worker, job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    assert statuses == ["dead", "dead", "pending"], "there is nothing to run it with again"
    record = await site.record(ids[1])
    assert (record.target, record.lane, record.key, record.reason) == ("resize", "default", key, "exhausted")


async def test_timeline_tells_of_a_job_that_is_given_back_and_starts_again_within_one_ms(site: Site) -> None:
    job_id = (await site.put())[0]
    await site.run("released")
    await site.run("succeeded")
    kinds = [entry.type for entry in (await site.store.find(job_id)).timeline]
    assert kinds == ["accepted", "started", "released", "started", "succeeded"]

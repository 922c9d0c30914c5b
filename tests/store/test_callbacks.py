"""Callbacks: made by the very script that ends a job, exactly once, and only for ends that were asked for."""

from __future__ import annotations

import orjson
import pytest

from gateway.backoff import CALLBACK_RETRY, RetryOverride
from gateway.jobs import CALLBACK_TARGET, Callback, CallbackEvent, Options, Outcome, Record, unpack_body
from tests.store.site import LEASE_MS, Site

ALL: tuple[CallbackEvent, ...] = ("job.succeeded", "job.dead", "job.cancelled")
ERROR = '{"type":"boom","message":"no"}'


def asking(*events: CallbackEvent) -> Options:
    return Options(callback=Callback("https://example.com/hook", events or ALL, "whsec_c2VjcmV0"), tags=("a",))


async def callbacks(site: Site) -> list[Record]:
    return [record for record in await site.records() if record.target == CALLBACK_TARGET]


@pytest.mark.parametrize(("outcome", "event"), [("succeeded", ALL[0]), ("dead", ALL[1]), ("cancelled", ALL[2])])
async def test_callback_is_made_when_its_end_was_asked_for(site: Site, outcome: Outcome, event: CallbackEvent) -> None:
    ids = await site.put(lane="low", options=asking(event))
    error = ERROR if outcome == "dead" else ""
    await site.run(outcome, result='{"n":1.0}', reason="fatal" if error else "", error=error)
    made = await callbacks(site)
    assert [(each.status, each.lane) for each in made] == [("pending", "low")]
    record = await site.record(ids[0])
    assert (record.callback_job_id, record.callback_status) == (made[0].job_id, "pending")
    claimed = (await site.claim(site.worker()))[0]
    options, payload = unpack_body(claimed.body)
    assert options.parent == asking(event)
    assert options.cause is not None
    assert (options.cause.job_id, options.cause.status, options.cause.attempts) == (ids[0], outcome, 1)
    assert options.cause.at_ms == site.clock.now_ms
    assert bytes(options.cause.error) == error.encode()
    assert payload == b'{"n":1.0}'


@pytest.mark.parametrize("outcome", ["succeeded", "dead", "cancelled"])
async def test_no_callback_is_made_when_its_end_was_not_asked_for(site: Site, outcome: Outcome) -> None:
    others = [event for event in ALL if event != f"job.{outcome}"]
    await site.put(options=asking(*others))
    await site.run(outcome)
    assert await callbacks(site) == []


async def test_no_callback_is_made_while_the_job_goes_on(site: Site) -> None:
    await site.put(options=asking())
    await site.run("released")
    await site.run("retry", delay_ms=1)
    await site.clock.advance(1)
    await site.lose(site.worker())
    assert await callbacks(site) == []


async def test_callback_is_made_of_every_retry_where_that_was_asked_for(site: Site) -> None:
    ids = await site.put(options=asking("job.retrying", "job.dead"), max_attempts=2)
    await site.run("retry", delay_ms=1500, error=ERROR)
    (made,) = await callbacks(site)
    assert (await site.record(ids[0])).callback_job_id == ""  # that is of its end
    (claimed,) = await site.claim(site.worker())
    cause = unpack_body(claimed.body)[0].cause
    assert cause is not None
    assert (cause.status, cause.attempts, cause.delay_ms, bytes(cause.error)) == ("retrying", 1, 1500, ERROR.encode())
    logged = [entry.facts for entry in (await site.store.find(ids[0])).timeline if entry.type == "callback"]
    assert [facts["callback"] for facts in logged] == [made.job_id]
    await site.settle(site.worker(), claimed, "succeeded")
    await site.clock.advance(1500)
    await site.run("retry", delay_ms=1, error=ERROR)  # the last attempt: dead
    assert len(await callbacks(site)) == 2
    assert (await site.record(ids[0])).callback_job_id != ""


async def test_callback_has_the_attempts_of_its_policy(site: Site) -> None:
    await site.put(options=asking())
    await site.run()
    assert [each.max_attempts for each in await callbacks(site)] == [CALLBACK_RETRY.max_attempts]


async def test_callback_has_as_many_attempts_as_it_says(site: Site) -> None:
    callback = Callback("https://example.com/hook", retry=RetryOverride(max_attempts=12))
    await site.put(options=Options(callback=callback))
    await site.run("succeeded")
    assert [each.max_attempts for each in await callbacks(site)] == [12]


async def test_callback_of_a_waiting_job_is_made_when_it_is_cancelled(site: Site) -> None:
    ids = await site.put(options=asking())
    await site.store.cancel(ids[0])
    assert [each.job_id for each in await callbacks(site)] == [(await site.record(ids[0])).callback_job_id]


async def test_callback_of_an_expired_job_is_made_by_the_claim_that_finds_it(site: Site) -> None:
    await site.put(options=asking(), expires_ms=10)
    await site.clock.advance(10)
    jobs = [*await site.claim(site.worker()), *await site.claim(site.worker())]
    cause = unpack_body(jobs[0].body)[0].cause
    assert len(jobs) == 1
    assert cause is not None
    assert (cause.status, cause.reason, cause.attempts) == ("dead", "expired", 0)


async def test_callback_of_a_stalled_job_is_made_by_the_reap_that_ends_it(site: Site) -> None:
    await site.put(options=asking())
    for at in range(4):
        assert await callbacks(site) == []
        await site.lose(site.worker(f"d{at}"))
    assert len(await callbacks(site)) == 1
    cause = unpack_body((await site.claim(site.worker("d9")))[0].body)[0].cause
    assert cause is not None
    assert (cause.status, cause.reason) == ("dead", "stalled")
    assert orjson.loads(bytes(cause.error))["type"] == "stalled"


async def test_callback_is_made_once_when_the_settlement_is_repeated_or_late(site: Site) -> None:
    await site.put(options=asking())
    worker = site.worker()
    job = (await site.claim(worker))[0]
    assert [await site.settle(worker, job, "succeeded") for _ in range(3)] == ["succeeded", "duplicate", "duplicate"]
    await site.clock.advance(LEASE_MS)
    await worker.reap(10, max_stalls=2)
    assert len(await callbacks(site)) == 1


async def test_callback_is_made_again_when_a_replayed_job_ends_again(site: Site) -> None:
    ids = await site.put(options=asking())
    await site.run("dead", reason="fatal")
    await site.run("succeeded")  # the first callback
    await site.store.replay(ids[0])
    assert (await site.record(ids[0])).callback_job_id == ""
    await site.run("succeeded")
    made = await callbacks(site)
    assert sorted(each.status for each in made) == ["pending", "succeeded"]
    assert (await site.record(ids[0])).callback_status == "pending"


async def test_callback_that_ends_makes_no_callback_of_its_own(site: Site) -> None:
    await site.put(options=asking())
    await site.run("succeeded")
    await site.run("dead", reason="fatal")
    assert [each.status for each in await callbacks(site)] == ["dead"]


async def test_callback_lies_in_the_partition_of_its_cause(site: Site) -> None:
    ids = await site.put(options=asking())
    await site.run("succeeded")
    assert (await callbacks(site))[0].job_id[-2:] == ids[0][-2:]

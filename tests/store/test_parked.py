"""Jobs whose work goes on elsewhere: a deadline in place of a lease, ended once by whoever has the token."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.errors import WrongState
from gateway.jobs import Callback, Claimed, Options, Settlement
from gateway.store.completion import heartbeat, settle_elsewhere
from gateway.store.leases import extend
from gateway.store.scripts import run
from tests.store.site import LEASE_MS, Site

WITHIN_MS = 5 * LEASE_MS
RETRY_MS = 700


async def park(site: Site, **options: Any) -> Claimed:
    """A job that a target has answered 202 of."""
    await site.put(**options)
    (job,) = await site.claim(site.worker())
    verdict = await site.settle(site.worker(), job, "parked", delay_ms=WITHIN_MS, reason=str(RETRY_MS))
    assert verdict == "parked"
    return job


async def end(site: Site, job: Claimed, outcome: Any, **facts: Any) -> str:
    return await settle_elsewhere(site.store, Settlement(job.job_id, job.token, outcome, **facts))


async def test_parked_job_runs_on_past_every_lease(site: Site) -> None:
    job = await park(site)
    for _ in range(4):
        assert await site.reap() == {}
    record = await site.record(job.job_id)
    assert (record.status, record.attempts, record.stalls) == ("running", 1, 0)
    assert [entry.type for entry in (await site.store.find(job.job_id)).timeline][-1] == "parked"


async def test_renewal_on_its_way_does_not_shorten_the_deadline(site: Site) -> None:
    job = await park(site)
    held = [(job.job_id, job.token)]
    renewed = await extend(site.store.client, site.prefix, "d1", held, lease_ms=LEASE_MS, heartbeat_ms=LEASE_MS)
    assert renewed.lost == ()
    assert await site.reap() == {}
    assert await site.status(job.job_id) == "running"


async def test_parking_said_again_changes_nothing(site: Site) -> None:
    job = await park(site)
    await site.clock.advance(LEASE_MS)
    assert await site.settle(site.worker(), job, "parked", delay_ms=WITHIN_MS, reason="1") == "parked"
    await site.clock.advance(WITHIN_MS - 2 * LEASE_MS)
    assert await site.reap() == {job.job_id: "retrying"}


async def test_token_ends_it_once(site: Site) -> None:
    job = await park(site, options=Options(callback=Callback("https://a.example/")))
    assert await end(site, job, "succeeded", result='{"n":1.0}') == "succeeded"
    record = await site.record(job.job_id)
    assert (record.status, record.result) == ("succeeded", b'{"n":1.0}')
    assert record.callback_job_id
    for outcome in ("succeeded", "retry", "parked"):
        with pytest.raises(WrongState, match="the token was used"):
            await end(site, job, outcome, reason="1")
    assert await site.reap() == {}


async def test_other_token_ends_nothing(site: Site) -> None:
    job = await park(site)
    with pytest.raises(WrongState):
        await settle_elsewhere(site.store, Settlement(job.job_id, "1:d9.9", "succeeded"))
    assert await site.status(job.job_id) == "running"


async def test_word_may_come_before_the_dispatchers_own(site: Site) -> None:
    await site.put()
    (job,) = await site.claim(site.worker())
    assert await end(site, job, "succeeded", result="1") == "succeeded"
    assert await site.settle(site.worker(), job, "parked", delay_ms=WITHIN_MS, reason="1") == "duplicate"
    assert await site.status(job.job_id) == "succeeded"


async def test_deadline_that_passes_is_a_failed_attempt(site: Site) -> None:
    job = await park(site, max_attempts=2)
    await site.clock.advance(WITHIN_MS - LEASE_MS)
    assert await site.reap() == {job.job_id: "retrying"}
    record = await site.record(job.job_id)
    assert (record.attempts, record.stalls) == (1, 0)
    assert record.next_attempt_ms == site.clock.now_ms + RETRY_MS
    with pytest.raises(WrongState):
        await end(site, job, "succeeded")
    await site.clock.advance(RETRY_MS)
    (again,) = await site.claim(site.worker())
    await site.settle(site.worker(), again, "parked", delay_ms=WITHIN_MS, reason="1")
    await site.clock.advance(WITHIN_MS - LEASE_MS)
    assert await site.reap() == {job.job_id: "dead"}
    record = await site.record(job.job_id)
    assert (record.reason, orjson.loads(record.error)["type"]) == ("exhausted", "timeout")


async def test_sign_of_life_begins_the_deadline_anew(site: Site) -> None:
    job = await park(site)
    for _ in range(3):
        await site.clock.advance(WITHIN_MS - LEASE_MS - 1)
        deadline_ms = await heartbeat(site.store, job.job_id, job.token, progress='{"done":1}')
        assert deadline_ms == site.clock.now_ms + WITHIN_MS
        assert await site.reap() == {}
    assert (await site.record(job.job_id)).progress == b'{"done":1}'
    with pytest.raises(WrongState):
        await heartbeat(site.store, job.job_id, "1:d9.9")


async def test_job_that_a_dispatcher_runs_has_no_sign_of_life_from_elsewhere(site: Site) -> None:
    await site.put()
    (job,) = await site.claim(site.worker())
    with pytest.raises(WrongState):
        await heartbeat(site.store, job.job_id, job.token)


@pytest.mark.parametrize(("after_ms", "waits_ms"), [(0, RETRY_MS), (5_000, 5_000)])
async def test_failure_from_elsewhere_waits_as_the_policy_and_the_word_say(
    site: Site, after_ms: int, waits_ms: int
) -> None:
    job = await park(site)
    assert await end(site, job, "retry", delay_ms=after_ms, error='{"type":"x"}') == "retrying"
    assert (await site.record(job.job_id)).next_attempt_ms == site.clock.now_ms + waits_ms


async def test_cancelled_job_ends_at_once(site: Site) -> None:
    job = await park(site)
    assert await site.store.cancel(job.job_id) == "cancelled"
    assert await site.status(job.job_id) == "cancelled"
    with pytest.raises(WrongState):
        await end(site, job, "succeeded")


async def test_parked_job_keeps_its_place_in_its_targets_concurrency(site: Site) -> None:
    await run(site.store.client, "flow_control", site.prefix, ["resize", "concurrency", 1])
    job = await park(site)
    await site.put()
    assert await site.claim(site.worker()) == []
    await end(site, job, "succeeded")
    assert len(await site.claim(site.worker())) == 1


async def test_replayed_job_is_parked_no_longer(site: Site) -> None:
    job = await park(site)
    await end(site, job, "dead", reason="fatal", error='{"type":"x"}')
    await site.store.replay(job.job_id)
    (again,) = await site.claim(site.worker())
    await site.clock.advance(LEASE_MS)
    assert await site.reap() == {again.job_id: "pending"}

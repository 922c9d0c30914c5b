"""Circuit breakers: when one opens, that nothing is spent while it is open, how it closes; targets that are gone."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.breaker import Breaker, breaker_fields
from gateway.durations import Duration
from gateway.jobs import Claimed, Record, unpack_body
from gateway.store.targets import enable_target, inspect_targets, pause_target
from tests.store.site import Site

T = "paid"
BREAKER = Breaker(ratio=0.5, minimum=4, window=Duration(10), pause=Duration(2), cap=Duration(5))
ERROR = '{"type":"status","message":"the target answered 503","status":503}'


@pytest.fixture
async def target(site: Site) -> str:
    await site.store.control_flow(T, {"concurrency": 0, "key_concurrency": 0, **breaker_fields(BREAKER)})
    return T


async def blocked(site: Site) -> str:
    return (await inspect_targets(site.store, [T]))[T].blocked


async def end(site: Site, jobs: list[Claimed], outcome: str = "retry", **facts: Any) -> list[str]:
    if outcome == "retry":
        facts = {"delay_ms": 1, "error": ERROR} | facts
    return [await site.settle(site.worker(), job, outcome, **facts) for job in jobs]  # type: ignore[arg-type]


async def open_breaker(site: Site, jobs: int = 10) -> list[str]:
    """Ten jobs, of which four were tried and failed: the breaker is open."""
    ids = await site.put(jobs, target=T)
    await end(site, await site.claim(site.worker(), 4))
    assert await blocked(site) == "breaker"
    return ids


async def probe(site: Site, pause_s: float) -> Claimed:
    """The one job that tries once the pause is over."""
    await site.clock.advance(round(pause_s * 1000) - 1)
    assert await site.claim(site.worker()) == []
    await site.clock.advance(1)
    (job,) = await site.claim(site.worker())
    assert await site.claim(site.worker()) == []
    return job


async def test_breaker_opens_at_its_ratio_of_its_minimum(site: Site, target: str) -> None:
    await site.put(20, target=T)
    jobs = await site.claim(site.worker(), 8)
    await end(site, jobs[:3])
    assert await blocked(site) == ""
    await end(site, jobs[3:7], "succeeded")
    await end(site, jobs[7:])
    assert await blocked(site) == "breaker"
    assert await site.claim(site.worker()) == []


async def test_window_forgets_what_was_before(site: Site, target: str) -> None:
    await site.put(20, target=T)
    await end(site, await site.claim(site.worker(), 3))
    await site.clock.advance(10_000)
    jobs = await site.claim(site.worker(), 4)
    await end(site, jobs[:3])
    assert await blocked(site) == ""
    await end(site, jobs[3:])
    assert await blocked(site) == "breaker"


async def test_failure_after_the_opening_is_given_back_unspent(site: Site, target: str) -> None:
    ids = await site.put(6, target=T, max_attempts=1)
    jobs = await site.claim(site.worker())
    assert await end(site, jobs[:4], "dead", reason="exhausted", error=ERROR) == ["dead"] * 4
    assert await end(site, jobs[4:5], "dead", reason="exhausted", error=ERROR) == ["pending"]
    assert await end(site, jobs[5:]) == ["pending"]
    records = [await site.record(job_id) for job_id in ids[4:]]
    assert [(record.status, record.attempts, record.waiting_on) for record in records] == [
        ("pending", 0, "breaker")
    ] * 2


async def test_one_job_tries_and_closes_the_breaker(site: Site, target: str) -> None:
    await open_breaker(site)
    job = await probe(site, 2)
    assert await blocked(site) == "breaker"
    await end(site, [job], "succeeded")
    assert await blocked(site) == ""
    assert len(await site.claim(site.worker())) == 9


async def test_answer_that_is_fatal_to_the_job_closes_it_too(site: Site, target: str) -> None:
    await open_breaker(site)
    await end(site, [await probe(site, 2)], "dead", reason="fatal", error=ERROR)
    assert await blocked(site) == ""


async def test_each_opening_in_a_row_lasts_twice_as_long_up_to_the_cap(site: Site, target: str) -> None:
    await open_breaker(site)
    for pause_s in (2, 4, 5, 5):
        await end(site, [await probe(site, pause_s)])
    await end(site, [await probe(site, 5)], "succeeded")
    await end(site, await site.claim(site.worker(), 4))
    await end(site, [await probe(site, 2)], "succeeded")


async def test_lost_or_released_try_is_followed_by_another(site: Site, target: str) -> None:
    await open_breaker(site)
    first = await probe(site, 2)
    await end(site, [first], "released")
    (again,) = await site.claim(site.worker())
    assert again.job_id == first.job_id
    await site.reap()
    (third,) = await site.claim(site.worker())
    await end(site, [third], "succeeded")
    assert await blocked(site) == ""


async def test_older_attempt_says_nothing_while_it_is_half_open(site: Site, target: str) -> None:
    await site.put(10, target=T)
    old, *jobs = await site.claim(site.worker(), 5)
    await end(site, jobs)
    await site.clock.advance(2_000)
    assert await site.claim(site.worker()) == []  # the older one still runs
    assert await end(site, [old]) == ["pending"]
    (job,) = await site.claim(site.worker())
    await end(site, [job], "succeeded")
    assert await blocked(site) == ""


async def test_target_that_is_gone_is_disabled_until_it_is_enabled(site: Site, target: str) -> None:
    ids = await site.put(3, target=T)
    jobs = await site.claim(site.worker(), 2)
    since_ms = site.clock.now_ms
    assert await end(site, jobs[:1], "dead", reason="gone", error=ERROR) == ["dead"]
    record = await site.record(ids[0])
    assert (record.status, record.reason) == ("dead", "fatal")
    assert await end(site, jobs[1:]) == ["retrying"]
    await site.clock.advance(60_000)
    assert await site.claim(site.worker()) == []
    assert (await site.record(ids[2])).waiting_on == "disabled"
    state = (await inspect_targets(site.store, [T]))[T]
    assert (state.paused, state.blocked, state.disabled_ms) == (True, "disabled", since_ms)
    await enable_target(site.store, T)
    state = (await inspect_targets(site.store, [T]))[T]
    assert (state.paused, state.blocked, state.disabled_ms) == (False, "", 0)
    assert len(await site.claim(site.worker())) == 2


async def test_enabling_closes_the_breaker(site: Site, target: str) -> None:
    await open_breaker(site)
    assert (await inspect_targets(site.store, [T]))[T].disabled_ms == site.clock.now_ms
    await enable_target(site.store, T)
    assert await blocked(site) == ""
    jobs = await site.claim(site.worker())
    assert len(jobs) == 6
    await end(site, jobs[:3])
    assert await blocked(site) == ""  # counted anew


async def test_pause_of_a_user_is_no_end_of_it(site: Site, target: str) -> None:
    await open_breaker(site)
    await pause_target(site.store, T, paused=True)
    await site.clock.advance(60_000)
    assert await site.claim(site.worker()) == []
    await pause_target(site.store, T, paused=False)
    assert len(await site.claim(site.worker())) == 1


async def notices(site: Site) -> list[dict[str, Any]]:
    found: list[Record] = [record for record in await site.records() if record.target == "ops"]
    assert {(each.lane, each.max_attempts) for each in found} <= {("critical", 7)}
    told = [orjson.loads((await site.record(each.job_id)).payload) for each in found]
    return sorted(told, key=lambda each: (each["at_ms"], each["data"]["cause"] == "gone"))


async def test_notices_go_out_as_jobs(site: Site, target: str) -> None:
    site.store.expect_notices(("ops", "critical", 7))
    await site.store.configure()
    await open_breaker(site)
    opened_ms = site.clock.now_ms
    error = orjson.loads(ERROR)
    facts = {"target": T, "cause": "breaker", "attempts": 4, "failures": 4, "error": error}
    assert await notices(site) == [{"type": "target.disabled", "at_ms": opened_ms, "data": facts}]
    jobs = [job for job in await site.claim(site.worker()) if job.target == "ops"]
    assert unpack_body(jobs[0].body)[1].startswith(b'{"type":"target.disabled"')
    await end(site, jobs, "succeeded")
    await end(site, [await probe(site, 2)])  # opens again: nothing new to tell
    await end(site, [await probe(site, 4)], "succeeded")
    told = await notices(site)
    assert len(told) == 2
    recovered = {"target": T, "cause": "breaker", "disabled_ms": opened_ms}
    assert told[1] == {"type": "target.recovered", "at_ms": site.clock.now_ms, "data": recovered}
    await end(site, [job for job in await site.claim(site.worker()) if job.target == T][:1], "dead", reason="gone")
    assert (await notices(site))[2]["data"] == {"target": T, "cause": "gone"}


async def test_nobody_is_told_where_nobody_is_configured(site: Site, target: str) -> None:
    site.store.expect_notices(("ops", "critical", 7))
    await site.store.configure()
    site.store.expect_notices(None)
    await site.store.configure()
    await open_breaker(site)
    assert await notices(site) == []

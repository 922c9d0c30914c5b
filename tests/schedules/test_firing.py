"""Slots fire once each, whoever comes first, whatever was missed, and as the jobs before them allow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from gateway.dispatch.schedules import DUE_MOST, Scheduler
from gateway.errors import NotFound, StoreFull, StoreUnavailable, WrongState
from gateway.jobs import Callback
from gateway.schedules import JobFacts, Schedule, plan
from gateway.store import Store, scripts
from gateway.store.schedules import home_of, pause_schedule, put_schedule, remove_schedule, resume_schedule
from gateway.store.slots import due_schedules, fire_slots, run_schedule
from tests.proxy import Proxy
from tests.schedules.running import FACTS, Yard, clock, ms
from tests.servers import Server
from tests.store.conftest import Topology
from tests.store.site import LANES, Site


async def test_200_slots_make_200_jobs_when_5_dispatchers_race_for_each(
    yard: Yard, topology: Topology, namespace: str
) -> None:
    await yard.start("10:00:30", "* * * * *", overlap="allow", timezone="America/New_York")
    stores = [
        await Store.open(topology.url, namespace=namespace, partitions=topology.partitions, lanes=LANES)
        for _ in range(5)
    ]
    told: list[str] = []
    schedulers = [
        Scheduler(
            store, {}, facts_of=lambda _: FACTS, fired=lambda _, job_id, lane: told.append(job_id),
            rng=random.Random(at),
        )
        for at, store in enumerate(stores)
    ]  # fmt: skip
    try:
        for _ in range(200):
            await yard.site.clock.advance(60_000)
            while 0.0 in await asyncio.gather(*(each.fire_due(yard.site.partition) for each in schedulers)):
                pass
    finally:
        for store in stores:
            await store.aclose()
    jobs = await yard.jobs()
    assert [job.run_at_ms for job in jobs] == [ms("10:01") + 60_000 * at for at in range(200)]
    assert await yard.counts() == (200, 0, 0)
    assert await yard.site.count("submitted") == 200
    assert sorted(told) == sorted(job.job_id for job in jobs)


async def test_job_is_what_the_schedule_says_and_its_id_is_of_its_slot(yard: Yard) -> None:
    facts = {"priority": 7, "key": "k", "timeout": 3.5, "tags": ("nightly",), "payload": msgspec.Raw(b'{"a": 1.0}')}
    await yard.start("10:00:30", "* * * * *", **facts)
    await yard.move("10:01:02")
    await yard.fire()
    (job,) = await yard.jobs()
    assert (job.target, job.lane, job.priority, job.key, job.max_attempts) == ("t", "default", 7, "k", 5)
    assert (job.payload, job.options.timeout, job.options.tags) == (b'{"a": 1.0}', 3.5, ("nightly", "schedule:s"))
    assert (job.status, clock(job.run_at_ms), clock(job.created_ms)) == ("pending", "10:01:00", "10:01:02")
    assert int(job.job_id.replace("-", "")[:12], 16) == ms("10:01")
    assert await yard.site.take(yard.site.worker()) == [job.job_id]


async def test_fired_job_has_the_callback_of_its_target(yard: Yard) -> None:
    callback = Callback("https://shop.example/dead", ("job.dead",))
    yard.facts = JobFacts("default", 1, callback)
    await yard.start("10:00:30", "* * * * *")
    await yard.move("10:01:02")
    await yard.fire()
    await yard.site.run("dead", reason="fatal")
    (job,) = await yard.jobs()
    assert (job.status, job.options.callback) == ("dead", callback)
    assert job.callback_job_id


@pytest.mark.parametrize(
    ("catch_up", "slots", "counts"),
    [
        ("skip", ["10:00:00"], (1, 3, 0)),
        ("once", ["10:00:00", "13:00:00"], (2, 2, 0)),
        ("all(2)", ["10:00:00", "12:00:00", "13:00:00"], (3, 1, 0)),
        ("all(24)", ["10:00:00", "11:00:00", "12:00:00", "13:00:00"], (4, 0, 0)),
    ],
)
async def test_three_hours_of_downtime_are_made_up_for_as_the_policy_says(
    yard: Yard, catch_up: str, slots: list[str], counts: tuple[int, int, int]
) -> None:
    await yard.start("09:30", "0 * * * *", catch_up=catch_up)
    await yard.move("10:00:01")
    await yard.fire(3)
    await yard.move("13:30")
    await yard.fire(3)
    assert (await yard.slots(), await yard.next(), await yard.counts()) == (slots, "14:00:00", counts)
    await yard.move("14:00:00.100")
    await yard.fire(3)
    assert await yard.slots() == [*slots, "14:00:00"]


async def test_many_missed_slots_all_fire_when_they_take_several_steps(yard: Yard) -> None:
    await yard.start("06:00:30", "* * * * *", catch_up="all(170)")
    await yard.move("09:00:30")
    await yard.fire(3)
    slots = await yard.slots()
    assert (len(slots), len(set(slots)), slots[0], slots[-1]) == (170, 170, "06:11:00", "09:00:00")
    assert await yard.counts() == (170, 10, 0)


@pytest.mark.parametrize("state", ["pending", "running", "retrying"])
async def test_slot_is_skipped_when_overlap_is_forbidden_and_the_job_before_is(yard: Yard, state: str) -> None:
    await _one_job(yard, state, overlap="forbid")
    await yard.move("10:02:00")
    await yard.fire()
    assert (await yard.slots(), await yard.next(), await yard.counts()) == (["10:01:00"], "10:03:00", (1, 0, 1))


@pytest.mark.parametrize("state", ["succeeded", "dead", "gone"])
async def test_slot_fires_when_overlap_is_forbidden_and_the_job_before_is_over(yard: Yard, state: str) -> None:
    await _one_job(yard, state, overlap="forbid")
    await yard.move("10:02:00")
    await yard.fire()
    assert await yard.counts() == (2, 0, 0)


async def test_forbidden_overlap_holds_among_slots_that_are_made_up_for(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *", overlap="forbid", catch_up="all(9)")
    await yard.move("10:05:30")
    await yard.fire()
    assert (await yard.slots(), await yard.counts()) == (["10:01:00"], (1, 0, 4))


@pytest.mark.parametrize(("state", "becomes"), [("pending", "cancelled"), ("retrying", "cancelled")])
async def test_job_before_is_cancelled_when_the_next_replaces_it(yard: Yard, state: str, becomes: str) -> None:
    await _one_job(yard, state, overlap="replace")
    await yard.move("10:02:00")
    await yard.fire()
    assert [(job.status, clock(job.run_at_ms)) for job in await yard.jobs()] == [
        (becomes, "10:01:00"),
        ("pending", "10:02:00"),
    ]
    assert await yard.counts() == (2, 0, 0)


async def test_running_job_is_asked_to_stop_when_the_next_replaces_it(yard: Yard) -> None:
    await _one_job(yard, "running", overlap="replace")
    await yard.move("10:02:00")
    await yard.fire()
    first, second = await yard.jobs()
    assert (first.status, first.cancel_asked, second.status) == ("running", True, "pending")


async def test_last_of_several_made_up_slots_stays_when_each_replaces_the_one_before(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *", overlap="replace", catch_up="all(9)")
    await yard.move("10:04:30")
    await yard.fire()
    assert [job.status for job in await yard.jobs()] == ["cancelled"] * 3 + ["pending"]
    assert await yard.site.take(yard.site.worker()) == [(await yard.jobs())[-1].job_id]


async def test_jobs_lie_in_the_target_s_flow_when_it_has_one(yard: Yard) -> None:
    site = yard.site
    await site.store.control_flow("limited", {"concurrency": 1})
    await yard.start("10:00:30", "* * * * *", target="limited", overlap="replace")
    assert site.partition == site.store.pinned_partition("limited")
    for at in ("10:01:00", "10:02:00", "10:03:00"):
        await yard.move(at)
        await yard.fire()
    assert [job.status for job in await yard.jobs()] == ["cancelled", "cancelled", "pending"]
    await site.run()
    assert (await yard.jobs())[-1].status == "succeeded"


async def test_no_slot_fires_when_the_schedule_is_paused_and_none_is_made_up_for(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *", catch_up="all(9)")
    assert (await pause_schedule(yard.site.store, "s")).paused
    assert (await pause_schedule(yard.site.store, "s")).paused
    await yard.move("10:05:30")
    await yard.fire()
    assert await yard.slots() == []
    assert clock((await resume_schedule(yard.site.store, "s")).slot_ms) == "10:06:00"
    await yard.move("10:05:59.999")
    assert clock((await resume_schedule(yard.site.store, "s")).slot_ms) == "10:06:00"
    await yard.move("10:06:00")
    await yard.fire()
    assert (await yard.slots(), await yard.counts()) == (["10:06:00"], (1, 0, 0))


async def test_schedule_may_begin_paused(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *", paused=True)
    await yard.move("10:05:30")
    await yard.fire()
    assert ((await yard.standing()).paused, await yard.slots()) == (True, [])


@pytest.mark.parametrize("change", ["another payload", "pause", "removal", "another dispatcher"])
async def test_dispatcher_that_decided_before_a_change_fires_nothing(yard: Yard, change: str) -> None:
    site = yard.site
    await yard.start("10:00:30", "* * * * *")
    await yard.move("10:01:00")
    due = await due_schedules(site.store, site.partition, most=10)
    (each,) = due.schedules
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "another payload": lambda: yard.define("* * * * *", payload=msgspec.Raw(b"2")),
        "pause": lambda: pause_schedule(site.store, "s"),
        "removal": lambda: remove_schedule(site.store, "s"),
        "another dispatcher": yard.fire,
    }
    await changes[change]()
    schedule = each.read()
    decided = plan(schedule, each.slot_ms, due.now_ms)
    fired = await fire_slots(site.store, site.partition, each, schedule=schedule, plan=decided, facts=FACTS)
    assert fired.verdict == ("none" if change == "removal" else "moved")
    assert len(await yard.jobs()) == (1 if change == "another dispatcher" else 0)


async def test_overdue_slot_is_kept_when_all_but_the_timing_changes(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *")
    await yard.move("10:01:00")
    await yard.define("* * * * *", payload=msgspec.Raw(b'"new"'))
    await yard.fire()
    (job,) = await yard.jobs()
    assert (job.payload, clock(job.run_at_ms)) == (b'"new"', "10:01:00")
    await yard.define("30 * * * *")
    assert await yard.next() == "10:30:00"
    await yard.define("30 * * * *", timezone="Asia/Kolkata")
    assert await yard.next() == "11:00:00"


async def test_jittered_slot_fires_at_its_time_and_no_sooner(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *", jitter_ms=50_000)
    fires_ms = (await yard.standing()).fires_ms
    assert fires_ms is not None
    assert ms("10:01") < fires_ms < ms("10:01:50")
    await yard.site.clock.advance(fires_ms - 1 - yard.site.clock.now_ms)
    await yard.fire()
    assert await yard.slots() == []
    await yard.site.clock.advance(1)
    await yard.fire()
    assert await yard.slots() == ["10:01:00"]


async def test_run_makes_a_job_at_once_and_leaves_the_next_slot_be(yard: Yard) -> None:
    store = yard.site.store
    await yard.start("10:00:30", "* * * * *", paused=True, payload=msgspec.Raw(b"[1]"))
    job_id, _ = await run_schedule(store, "s", lambda _: FACTS)
    (job,) = await yard.jobs()
    assert (job.job_id, job.payload, clock(job.run_at_ms)) == (job_id, b"[1]", "10:00:30")
    assert await yard.site.take(yard.site.worker()) == [job_id]
    assert (await yard.standing()).paused
    with pytest.raises(NotFound, match="no schedule named 'absent'"):
        await run_schedule(store, "absent", lambda _: FACTS)


async def test_run_is_refused_when_overlap_is_forbidden_and_the_job_before_is_not_finished(yard: Yard) -> None:
    await yard.start("10:00:30", "* * * * *", overlap="forbid")
    first, _ = await run_schedule(yard.site.store, "s", lambda _: FACTS)
    with pytest.raises(WrongState, match=f"its last job {first} is not finished"):
        await run_schedule(yard.site.store, "s", lambda _: FACTS)
    await yard.move("10:01:00")
    await yard.fire()
    assert await yard.counts() == (1, 0, 2)
    await yard.site.run()
    await run_schedule(yard.site.store, "s", lambda _: FACTS)
    assert len(await yard.jobs()) == 2


async def test_slots_wait_and_fire_when_their_lane_was_full(yard: Yard) -> None:
    store = yard.site.store
    store.expect_rules(dead_most=0, lane_caps={"default": 1})
    await store.configure()
    await yard.start("10:00:30", "* * * * *", catch_up="all(9)")
    await yard.move("10:02:05")
    await yard.fire()
    assert (await yard.slots(), await yard.next()) == (["10:01:00"], "10:02:00")
    with pytest.raises(StoreFull, match="lane default is full"):
        await run_schedule(store, "s", lambda _: FACTS)
    await yard.fire()
    assert await yard.slots() == ["10:01:00"]
    await yard.site.run()
    await yard.move("10:02:07")
    await yard.fire()
    assert (await yard.slots(), await yard.next()) == (["10:01:00", "10:02:00"], "10:03:00")


async def test_one_broken_schedule_keeps_no_other_from_firing(yard: Yard) -> None:
    store = yard.site.store
    await yard.start("10:00:30", "* * * * *")
    name = next(each for at in range(100) if _home(store, each := f"broken{at}") == yard.site.partition)
    await put_schedule(store, Schedule(name=name, cron="* * * * *", target="t"))
    key = f"{yard.site.prefix}schedule:{name}"
    await store.client.hset(key, "definition", '{"name":7}')
    await yard.move("10:01:00")
    await yard.fire()
    assert await yard.slots() == ["10:01:00"]
    await remove_schedule(store, name)


async def test_definitions_are_capped(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.schedules.MOST", 1)
    await yard.start("10:00:30", "* * * * *")
    store = yard.site.store
    name = next(each for at in range(100) if _home(store, each := f"more{at}") == yard.site.partition)
    with pytest.raises(WrongState, match="there are 1 schedules already"):
        await put_schedule(store, Schedule(name=name, cron="* * * * *", target="t"))
    await yard.define("*/2 * * * *")


@pytest.mark.parametrize("topology", ["one"], indirect=True)
async def test_slot_fires_once_when_the_reply_is_lost(yard: Yard, proxy: Proxy, namespace: str) -> None:
    await yard.start("10:00:30", "* * * * *")
    await yard.move("10:01:00")
    store = await Store.open(proxy.url, namespace=namespace, lanes=LANES)
    try:
        await store.client.script_load(scripts.script("schedule_fire").source)
        yard.site.store, own = store, yard.site.store
        proxy.lose_reply_to(_sha("schedule_fire"))
        with pytest.raises(StoreUnavailable):
            await yard.fire()
        assert proxy.lost == 1
        await yard.fire()
        assert (await yard.slots(), await yard.counts()) == (["10:01:00"], (1, 0, 0))
        proxy.lose_reply_to(_sha("schedule_fire"))
        job_id, _ = await run_schedule(store, "s", lambda _: FACTS)
        assert proxy.lost == 2
        assert (await yard.jobs())[-1].job_id == job_id
        assert await yard.counts() == (2, 0, 0)
    finally:
        yard.site.store = own
        await store.aclose()


async def test_many_that_cannot_fire_keep_no_other_from_firing(yard: Yard) -> None:
    store = yard.site.store
    await yard.start("10:00:30", "* * * * *")
    names = [each for at in range(1000) if _home(store, each := f"broken{at}") == yard.site.partition][: DUE_MOST + 1]
    for name in names:
        await put_schedule(store, Schedule(name=name, cron="* * * * *", target="t"))
        await store.client.hset(f"{yard.site.prefix}schedule:{name}", "definition", '{"name":7}')
    await store.client.zadd(f"{yard.site.prefix}schedules", dict.fromkeys(names, 1))
    await yard.move("10:01:00")
    await yard.fire()
    assert await yard.slots() == ["10:01:00"]
    for name in names:
        await remove_schedule(store, name)


async def test_slot_waits_when_the_server_is_full(namespace: str) -> None:
    with Server() as server:
        store = await Store.open(server.url, namespace=namespace, lanes=LANES)
        try:
            await put_schedule(store, Schedule(name="s", cron="* * * * * *", target="t", catch_up="all(1000)"))
            scheduler = Scheduler(store, {}, facts_of=lambda _: FACTS, fired=lambda *_: None, rng=random.Random(1))
            await store.client.config_set("maxmemory", "1")
            with pytest.raises(StoreFull):
                await _fire_until_it_fails(scheduler)
            assert (await store.inspect()).counters == {}
            await store.client.config_set("maxmemory", "0")
            assert await scheduler.fire_due(0) == 0.0
            assert (await store.inspect()).counters["schedule_fired:s"] >= 1
        finally:
            await store.aclose()


async def _fire_until_it_fails(scheduler: Scheduler) -> None:
    async with asyncio.timeout(5):
        while True:
            wait_s = await scheduler.fire_due(0)
            await asyncio.sleep(min(0.1, wait_s))


def _sha(name: str) -> str:
    """The hash of the script as it runs here, with the clock that stands."""
    return scripts.script(name).sha


def _home(store: Store, name: str) -> int:
    return home_of(store, Schedule(name=name, cron="* * * * *", target="t"))


async def _one_job(yard: Yard, state: str, **facts: str) -> None:
    """The job of the slot 10:01, brought to a state."""
    await yard.start("10:00:30", "* * * * *", **facts)
    await yard.move("10:01:00")
    await yard.fire()
    site: Site = yard.site
    if state == "running":
        await site.take(site.worker())
    elif state == "retrying":
        await site.run("retry", delay_ms=3_600_000)
    elif state in ("succeeded", "dead"):
        await site.run(state, reason="fatal")  # type: ignore[arg-type]
    elif state == "gone":
        job_id = await site.run()
        await site.store.client.unlink(*(f"{site.prefix}{kind}:{job_id}" for kind in "jbre"))
        await site.store.client.zrem(f"{site.prefix}done", job_id)
        await site.store.client.hincrby(f"{site.prefix}stats", "evicted:default:t", 1)

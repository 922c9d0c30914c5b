"""Bulk replays: which jobs they send back, how fast, and that they survive whoever carries them on."""

from __future__ import annotations

import pytest

from gateway.errors import NotFound, WrongState
from gateway.jobs import Submission
from gateway.store import Store, replays
from gateway.store.replays import (
    Replay,
    ReplayOrder,
    ReplaySteps,
    find_replay,
    start_replay,
    step_replays,
    stop_replay,
)
from gateway.store.scripts import Arg, run
from tests.store.dump import dump
from tests.store.site import Site

FAST = "1000000/s"
ALL = ReplayOrder(FAST)


async def dead(site: Site, count: int = 1, *, reason: str = "fatal", **options: object) -> list[str]:
    """Jobs that died one after the other, the last one now."""
    ids = await site.put(count, **options)
    worker = site.worker("killer")
    for job in await site.claim(worker, count):
        await site.clock.advance(1)
        await site.settle(worker, job, "dead", reason=reason)
    return ids


async def carry(store: Store, steps: ReplaySteps | None = None) -> None:
    """Steps until no replay is under way; for those that no clock has to move for."""
    steps = steps or ReplaySteps()
    for _ in range(200):
        if await step_replays(store, steps) is None:
            return
    raise AssertionError("the replays do not end")


async def replayed(site: Site, order: ReplayOrder) -> Replay:
    """A replay from its start to its end."""
    replay_id = await start_replay(site.store, order)
    await carry(site.store)
    found = await find_replay(site.store, replay_id)
    assert found.state == "done"
    return found


async def pending(site: Site) -> set[str]:
    return {record.job_id for record in await site.records() if record.status == "pending"}


async def test_all_dead_jobs_go_back_when_nothing_is_filtered(site: Site) -> None:
    ids = await dead(site, 5, lane="low", priority=3)
    result = await replayed(site, ALL)
    assert (result.matched, result.replayed, result.skipped) == (5, 5, 0)
    record = await site.record(ids[0])
    assert (record.status, record.attempts, record.lane, record.priority) == ("pending", 0, "low", 3)
    assert await site.take(site.worker()) == ids


async def test_only_jobs_of_the_filter_go_back(site: Site) -> None:
    wrong_reason = await dead(site, 2, target="red", reason="exhausted")
    wanted = await dead(site, 3, target="red")
    wrong_target = await dead(site, 2, target="blue")
    result = await replayed(site, ReplayOrder(FAST, target="red", reason="fatal"))
    assert (result.matched, result.replayed) == (3, 3)
    assert await pending(site) == set(wanted)
    assert (await replayed(site, ReplayOrder(FAST, reason="exhausted"))).replayed == 2
    assert await pending(site) == {*wanted, *wrong_reason}
    assert await site.status(wrong_target[0]) == "dead"


async def test_only_jobs_that_died_in_the_time_go_back(site: Site) -> None:
    first_ms = site.clock.now_ms + 1
    ids = await dead(site, 10)
    times = ReplayOrder(FAST, dead_after_ms=first_ms + 2, dead_before_ms=first_ms + 7)
    assert (await replayed(site, times)).replayed == 6
    assert await pending(site) == set(ids[2:8])


async def test_longest_dead_go_first_and_no_more_than_the_limit(site: Site) -> None:
    ids = await dead(site, 4)
    assert (await replayed(site, ReplayOrder(FAST, limit=3))).replayed == 3
    assert await site.take(site.worker()) == ids[:3]


async def test_limit_and_counts_are_those_of_all_partitions(site: Site) -> None:
    store = site.store
    jobs = [Submission(store.new_id(site.clock.now_ms), "resize", b"1") for _ in range(40)]
    await store.submit(jobs)
    for partition in range(store.partitions):
        here = Site(store, site.clock, partition)
        worker = here.worker("killer")
        for job in await here.claim(worker):
            await here.settle(worker, job, "dead", reason="fatal")
    result = await replayed(site, ReplayOrder(FAST, limit=25))
    assert (result.matched, result.replayed) == (25, 25)
    assert len(await pending(site)) == 25
    assert (await replayed(site, ALL)).replayed == 15


async def test_rate_holds_whoever_and_however_many_carry_the_replay_on(site: Site) -> None:
    await dead(site, 40)
    replay_id = await start_replay(site.store, ReplayOrder("50/s"))  # one each 20 ms, five at once
    dispatchers = [ReplaySteps() for _ in range(3)]

    async def step() -> int:
        waits = [await step_replays(site.store, steps) for steps in dispatchers]
        assert all(waits), "tokens are left, and nobody takes them"
        return (await find_replay(site.store, replay_id)).replayed

    assert await step() == 5
    await site.clock.advance(19)
    assert await step() == 5
    await site.clock.advance(1)
    assert await step() == 6
    await site.clock.advance(60)
    assert await step() == 9
    await site.clock.advance(60_000)
    assert await step() == 14, "time without a dispatcher is not made up for"


async def test_step_tells_when_it_pays_to_come_again(site: Site) -> None:
    await dead(site, 3)
    await start_replay(site.store, ReplayOrder("2/s"))
    steps = ReplaySteps()
    assert await step_replays(site.store, steps) == pytest.approx(0.5)
    await site.clock.advance(200)
    assert await step_replays(site.store, steps) == pytest.approx(0.3)


async def test_replay_goes_on_where_it_was_when_all_who_carried_it_are_gone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "WINDOW", 4)
    ids = await dead(site, 30)
    replay_id = await start_replay(site.store, ALL)
    for _ in range(3):
        await step_replays(site.store, ReplaySteps())
    assert 0 < (await find_replay(site.store, replay_id)).replayed < 30
    await carry(site.store, ReplaySteps())
    assert (await find_replay(site.store, replay_id)).replayed == 30
    assert await site.take(site.worker(), 50) == ids


async def test_step_looks_at_a_bounded_window_and_still_finds_every_match(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "WINDOW", 7)
    wanted: list[str] = []
    for at in range(40):
        ids = await dead(site, reason="fatal" if at % 13 == 5 else "exhausted")
        wanted += ids if at % 13 == 5 else []
    assert (await replayed(site, ReplayOrder(FAST, reason="fatal"))).replayed == len(wanted) == 3
    assert await site.take(site.worker()) == wanted


async def test_two_replays_of_the_same_jobs_make_each_job_once(site: Site) -> None:
    ids = await dead(site, 20)
    both = [await start_replay(site.store, ReplayOrder("100/s")) for _ in range(2)]
    steps = ReplaySteps()
    while await step_replays(site.store, steps) is not None:
        await site.clock.advance(30)
    assert sum([(await find_replay(site.store, each)).replayed for each in both]) == 20
    assert sorted(await site.take(site.worker(), 50)) == sorted(ids)
    assert await site.count("replayed") == 20


async def test_job_that_dies_again_meanwhile_is_left_alone(site: Site) -> None:
    ids = await dead(site, 3)
    replay_id = await start_replay(site.store, ReplayOrder("10/s"))
    steps = ReplaySteps()
    runs: list[str] = []
    for _ in range(20):
        await step_replays(site.store, steps)
        for job in await site.claim(site.worker()):
            runs.append(job.job_id)
            await site.settle(site.worker(), job, "dead", reason="fatal")  # at the very instant of the replay, too
        await site.clock.advance(100)
    assert await step_replays(site.store, steps) is None
    assert runs == ids
    found = await find_replay(site.store, replay_id)
    assert (found.matched, found.replayed) == (3, 3)


async def test_jobs_that_die_after_the_start_are_not_of_the_replay(site: Site) -> None:
    await dead(site, 4)
    replay_id = await start_replay(site.store, ReplayOrder("10/s"))
    steps = ReplaySteps()
    await step_replays(site.store, steps)
    assert (await find_replay(site.store, replay_id)).replayed == 1
    await site.clock.advance(100)
    late = await dead(site, 2, lane="critical")
    while await step_replays(site.store, steps) is not None:
        await site.clock.advance(100)
    assert (await find_replay(site.store, replay_id)).replayed == 4
    assert [await site.status(job_id) for job_id in late].count("pending") == 0


async def test_stopped_replay_sends_nothing_more_back(site: Site) -> None:
    await dead(site, 10)
    replay_id = await start_replay(site.store, ReplayOrder("10/s"))
    steps = ReplaySteps()
    await step_replays(site.store, steps)
    stopped = await stop_replay(site.store, replay_id)
    assert (stopped.state, stopped.replayed) == ("stopped", 1)
    await site.clock.advance(10_000)
    order = replays._step_args(replay_id, ReplayOrder("10/s"), 0)
    for keyspace in site.store.keyspaces:  # as a dispatcher that has not heard of it would
        assert (await run(site.store.client, "replay_some", keyspace.prefix, order))[0] in (b"stopped", b"done")
    assert await step_replays(site.store, steps) is None
    assert len(await pending(site)) == 1
    assert (await stop_replay(site.store, replay_id)).state == "stopped"


async def test_stop_holds_for_a_step_under_way_that_has_not_come_to_all_partitions(site: Site) -> None:
    await dead(site, 10)
    replay_id = await start_replay(site.store, ReplayOrder("10/s"))
    steps = ReplaySteps()
    steps.keep([replay_id])
    await run(site.store.client, "replay_end", site.store.keyspaces[0].prefix, [replay_id, "stopped"])
    await replays._step(site.store, steps, replay_id)
    assert await pending(site) == set()
    assert (await find_replay(site.store, replay_id)).state == "stopped"


async def test_done_replay_cannot_be_stopped_and_unknown_ones_are_not_found(site: Site) -> None:
    done = await replayed(site, ALL)
    with pytest.raises(WrongState, match=done.replay_id):
        await stop_replay(site.store, done.replay_id)
    for unknown in ("0" * 16, "nonsense", "*"):
        with pytest.raises(NotFound):
            await find_replay(site.store, unknown)


async def test_replayed_jobs_have_as_many_attempts_as_overridden(site: Site) -> None:
    first = await dead(site, max_attempts=1)
    await replayed(site, ReplayOrder(FAST, max_attempts=7))
    assert (await site.record(first[0])).max_attempts == 7
    await site.run("dead", reason="fatal")
    await site.store.replay(first[0], max_attempts=2)
    assert (await site.record(first[0])).max_attempts == 2


async def test_jobs_of_flows_go_back_into_their_flows(site: Site) -> None:
    await run(site.store.client, "flow_control", site.prefix, ["bank", "concurrency", 1])
    for _ in range(3):
        await dead(site, target="bank", key="a")
    await replayed(site, ReplayOrder(FAST, target="bank"))
    assert len(await site.take(site.worker(), 10)) == 1


async def test_replays_under_way_are_bounded(site: Site) -> None:
    ids = [await start_replay(site.store, ALL) for _ in range(replays.MOST)]
    with pytest.raises(WrongState, match="16 replays"):
        await start_replay(site.store, ALL)
    await stop_replay(site.store, ids[0])
    await start_replay(site.store, ALL)


async def test_start_and_end_change_nothing_more_when_repeated(site: Site) -> None:
    prefix, client = site.store.keyspaces[0].prefix, site.store.client
    start: list[Arg] = ["r" * 16, '{"rate":"1/s"}', 16]
    answer = await run(client, "replay_start", prefix, start)
    after = await dump(site.store)
    assert await run(client, "replay_start", prefix, start) == answer
    assert await dump(site.store) == after
    assert await run(client, "replay_end", prefix, ["r" * 16, "stopped"]) == b"stopped"
    after = await dump(site.store)
    assert await run(client, "replay_end", prefix, ["r" * 16, "done"]) == b"stopped"
    assert await dump(site.store) == after

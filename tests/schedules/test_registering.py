"""What the configuration file defines is what stands, and what the API defined lies where its jobs do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.dispatch.file_schedules import register, remove_unnamed
from gateway.errors import NotFound, WrongState
from gateway.schedules import Schedule
from gateway.store import Store
from gateway.store.schedules import (
    every_schedule,
    find_schedule,
    home_of,
    list_schedules,
    name_schedules,
    pause_schedule,
    put_schedule,
    remove_schedule,
    resume_schedule,
)
from tests.schedules.running import Yard, clock


def of_file(name: str = "s", cron: str = "* * * * *", **facts: Any) -> dict[str, Schedule]:
    return {name: Schedule(name=name, cron=cron, target="t", source="file", **facts)}


async def names(store: Store) -> list[str]:
    return [each.schedule.name async for each in every_schedule(store)]


async def test_configured_schedules_are_there_once_however_often_they_are_registered(yard: Yard) -> None:
    store = yard.site.store
    await yard.move("10:00:30")
    for _ in range(3):
        await register(store, of_file() | of_file("other", "@daily"))
    assert sorted(await names(store)) == ["other", "s"]
    assert await yard.next() == "10:01:00"


async def test_schedule_goes_when_the_file_no_longer_defines_it_and_the_api_s_own_stays(yard: Yard) -> None:
    store = yard.site.store
    await yard.start("10:00:30", "* * * * *")
    await register(store, of_file("gone"))
    await register(store, {})
    assert await names(store) == ["s"]


async def test_schedule_stays_while_a_dispatcher_at_work_has_it_in_its_file(yard: Yard) -> None:
    store = yard.site.store
    await yard.move("10:00:30")
    await register(store, of_file())
    (left,) = await register(store, {}, unnamed_s=30.0)
    await yard.move("10:00:50")
    assert await name_schedules(store, of_file().values(), at_work=True) == []
    await yard.move("10:01:10")
    assert await remove_unnamed(store, [left], unnamed_s=30.0) == [left]
    await yard.move("10:01:20")
    assert (await remove_unnamed(store, [left], unnamed_s=30.0), await names(store)) == ([], [])
    assert await name_schedules(store, of_file().values(), at_work=True) == ["s"]


async def test_schedule_goes_at_once_when_the_dispatchers_that_had_it_in_their_files_have_left(yard: Yard) -> None:
    store = yard.site.store
    await yard.move("10:00:30")
    await register(store, of_file())
    await name_schedules(store, of_file().values(), at_work=False)
    assert await register(store, {}, unnamed_s=30.0) == []
    assert await names(store) == []


async def test_overdue_slot_and_pause_outlast_a_restart_when_the_file_is_as_it_was(yard: Yard) -> None:
    store = yard.site.store
    await yard.move("10:00:30")
    await register(store, of_file(catch_up="all(9)"))
    await yard.move("10:03:30")
    await register(store, of_file(catch_up="all(9)"))
    assert await yard.next() == "10:01:00"
    await pause_schedule(store, "s")
    await register(store, of_file(catch_up="all(9)"))
    assert (await yard.standing()).paused
    await register(store, of_file(catch_up="skip"))
    assert not (await yard.standing()).paused


async def test_file_s_schedule_is_refused_to_the_api(yard: Yard) -> None:
    store = yard.site.store
    await yard.move("10:00:30")
    await register(store, of_file())
    for other in ("t", "elsewhere"):
        with pytest.raises(WrongState, match="is defined in the configuration file"):
            await put_schedule(store, Schedule(name="s", cron="@daily", target=other))
    with pytest.raises(WrongState, match="is defined in the configuration file"):
        await remove_schedule(store, "s")
    assert (await yard.standing()).schedule.cron == "* * * * *"


async def test_file_takes_over_a_name_of_the_api(yard: Yard) -> None:
    await yard.start("10:00:30", "@daily")
    await register(yard.site.store, of_file())
    assert ((await yard.standing()).schedule.source, await yard.next()) == ("file", "10:01:00")


@pytest.mark.parametrize("topology", ["cluster"], indirect=True)
async def test_schedule_moves_with_its_slot_when_its_target_s_jobs_lie_elsewhere_now(yard: Yard) -> None:
    store = yard.site.store
    target = next(name for at in range(100) if _elsewhere(store, name := f"t{at}"))
    await yard.start("10:00:30", "* * * * *", target=target, payload=msgspec.Raw(b"7"), catch_up="all(9)")
    await yard.move("10:02:30")
    await store.control_flow(target, {"concurrency": 1})
    await register(store, {})
    assert await names(store) == ["s"]
    moved = await find_schedule(store, "s")
    assert (moved.partition, clock(moved.slot_ms)) == (store.pinned_partition(target), "10:01:00")
    assert bytes(moved.schedule.payload) == b"7"
    yard.site.partition = moved.partition
    await yard.fire()
    assert await yard.slots() == ["10:01:00", "10:02:00"]


@pytest.mark.parametrize("topology", ["cluster"], indirect=True)
async def test_schedule_stands_in_one_place_when_another_target_moves_it(yard: Yard) -> None:
    store = yard.site.store
    await store.control_flow("a", {"concurrency": 1})
    other = next(name for at in range(100) if _pin(store, name := f"b{at}") != store.pinned_partition("a"))
    await store.control_flow(other, {"concurrency": 1})
    await yard.start("10:00:30", "* * * * *", target="a")
    await yard.define("* * * * *", target=other)
    (each,) = [each async for each in every_schedule(store)]
    assert (each.schedule.target, each.partition) == (other, store.pinned_partition(other))


@pytest.mark.parametrize("topology", ["cluster"], indirect=True)
async def test_newer_of_two_copies_stays_when_a_move_was_cut_short(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    store = yard.site.store
    await store.control_flow("a", {"concurrency": 1})
    other = next(name for at in range(100) if _pin(store, name := f"b{at}") != store.pinned_partition("a"))
    await yard.start("10:00:30", "* * * * *", target="a")
    await yard.move("10:00:31")
    await store.control_flow(other, {"concurrency": 1})
    copies = Store(store.client, namespace=store.keyspaces[0].namespace, partitions=4, lanes=store.lanes)
    copies.expect_flows({other: {"concurrency": 1}})
    with monkeypatch.context() as patched:
        patched.setattr("gateway.store.schedules._find", _nothing_stands(await _now(store)))
        await put_schedule(copies, Schedule(name="s", cron="* * * * *", target=other))
    assert await names(store) == ["s", "s"]
    await register(store, {})
    (each,) = [each async for each in every_schedule(store)]
    assert each.schedule.target == other


async def test_pages_hold_every_schedule_once_by_name(yard: Yard) -> None:
    store = yard.site.store
    await yard.move("10:00:30")
    every = sorted(f"n{at:02}" for at in range(23))
    for name in reversed(every):
        await put_schedule(store, Schedule(name=name, cron="* * * * *", target="t"))
    found, after = list[str](), ""
    while page := await list_schedules(store, after=after, limit=5):
        found += [each.schedule.name for each in page]
        after = found[-1]
    assert found == every


async def test_removed_schedule_leaves_nothing_but_its_jobs(yard: Yard) -> None:
    site = yard.site
    await yard.start("10:00:30", "* * * * *", overlap="forbid")
    for at in ("10:01:00", "10:02:00"):
        await yard.move(at)
        await yard.fire()
    await remove_schedule(site.store, "s")
    left = [key.decode() async for key in site.store.client.scan_iter(match=f"{site.prefix}schedule*", count=10_000)]
    assert left == []
    assert [name for name in (await site.store.inspect()).counters if name.startswith("schedule")] == []
    assert len(await yard.jobs()) == 1
    for change in (remove_schedule, pause_schedule, resume_schedule, find_schedule):
        with pytest.raises(NotFound, match="no schedule named 's'"):
            await change(site.store, "s")


def _pin(store: Store, target: str) -> int:
    probe = Store(store.client, namespace="x", partitions=store.partitions, lanes=store.lanes)
    probe.expect_flows({target: {"concurrency": 1}})
    pinned = probe.pinned_partition(target)
    assert pinned is not None
    return pinned


def _elsewhere(store: Store, target: str) -> bool:
    return _pin(store, target) != home_of(store, Schedule(name="s", cron="* * * * *", target=target))


async def _now(store: Store) -> int:
    return (await find_schedule(store, "s")).updated_ms


def _nothing_stands(now_ms: int) -> Any:
    async def find(store: Store, name: str) -> tuple[int, list[Any]]:
        return now_ms, []

    return find

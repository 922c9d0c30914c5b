"""What a schedule decides: which slots fire, which are given up, which one comes next."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.schedules import Plan, Schedule, catch_up_most, first_slot, plan
from gateway.schedules.plan import COUNT_MOST, FIRE_MOST, GRACE_MS


def ms(text: str) -> int:
    return round(datetime.fromisoformat(f"2026-11-29T{text}").replace(tzinfo=UTC).timestamp() * 1000)


def schedule(cron: str = "0 * * * *", **facts: Any) -> Schedule:
    return Schedule(name="hourly", cron=cron, target="t", **facts)


def decided(text: Plan) -> tuple[list[str], int, str]:
    """The plan in clock times."""
    clock = [f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M:%S}" for at in (*text.fire, text.next.slot_ms)]
    return clock[:-1], text.missed, clock[-1]


@pytest.mark.parametrize("catch_up", ["skip", "once", "all(5)"])
@pytest.mark.parametrize("late", ["11:00:00", "11:00:00.300", "11:00:10"])
def test_slot_fires_under_any_policy_when_it_is_on_time_or_a_little_late(catch_up: str, late: str) -> None:
    assert decided(plan(schedule(catch_up=catch_up), ms("11:00"), ms(late))) == (["11:00:00"], 0, "12:00:00")


@pytest.mark.parametrize(
    ("catch_up", "now", "expected"),
    [
        ("skip", "13:30:00", ([], 3, "14:00:00")),
        ("once", "13:30:00", (["13:00:00"], 2, "14:00:00")),
        ("all(2)", "13:30:00", (["12:00:00", "13:00:00"], 1, "14:00:00")),
        ("all(3)", "13:30:00", (["11:00:00", "12:00:00", "13:00:00"], 0, "14:00:00")),
        ("all(1000)", "13:30:00", (["11:00:00", "12:00:00", "13:00:00"], 0, "14:00:00")),
        # the dispatcher is back just as a slot is due: that one is on time
        ("skip", "13:00:05", (["13:00:00"], 2, "14:00:00")),
        ("once", "13:00:05", (["13:00:00"], 2, "14:00:00")),
        ("all(2)", "13:00:05", (["12:00:00", "13:00:00"], 1, "14:00:00")),
        ("skip", "13:00:11", ([], 3, "14:00:00")),
        ("skip", "11:00:11", ([], 1, "12:00:00")),
        ("once", "11:00:11", (["11:00:00"], 0, "12:00:00")),
    ],
)
def test_missed_slots_are_made_up_for_as_the_policy_says(
    catch_up: str, now: str, expected: tuple[list[str], int, str]
) -> None:
    assert decided(plan(schedule(catch_up=catch_up), ms("11:00"), ms(now))) == expected


def test_every_slot_of_a_short_stall_fires_when_there_is_one_each_second() -> None:
    made = plan(schedule("* * * * * *", catch_up="skip"), ms("11:00:00"), ms("11:00:04.900"))
    assert decided(made) == ([f"11:00:0{second}" for second in range(5)], 0, "11:00:05")


def test_missed_slots_fire_in_steps_when_they_are_many() -> None:
    minutely, slot, fired = schedule("* * * * *", catch_up="all(250)"), ms("06:00"), list[int]()
    sizes, missed = list[int](), 0
    while True:
        step = plan(minutely, slot, ms("11:30:30"))
        sizes.append(len(step.fire))
        fired += step.fire
        missed += step.missed
        slot = step.next.slot_ms
        if step.next.at_ms > ms("11:30:30"):
            break
    assert sizes == [FIRE_MOST, FIRE_MOST, 50]
    assert fired == [ms("11:30") - 60_000 * at for at in reversed(range(250))]
    assert missed == 331 - 250


def test_a_year_of_seconds_is_made_up_for_in_no_time_and_counted_up_to_a_limit() -> None:
    secondly, began = schedule("* * * * * *", catch_up="once", timezone="Europe/Berlin"), time.process_time()
    made = plan(secondly, ms("11:00") - 366 * 86_400_000, ms("11:00"))
    assert time.process_time() - began < 5.0
    assert decided(made) == (["11:00:00"], COUNT_MOST, "11:00:01")


def test_slot_that_a_new_tz_database_moved_is_waited_for_anew() -> None:
    assert decided(plan(schedule(), ms("11:07"), ms("11:07:01"))) == ([], 0, "12:00:00")


def test_jitter_is_the_same_for_the_same_slot_and_spread_over_its_width() -> None:
    minutely = schedule("* * * * *", jitter_ms=30_000)
    slots = [first_slot(minutely, ms("11:00") + 60_000 * at) for at in range(200)]
    assert slots == [first_slot(minutely, ms("11:00") + 60_000 * at) for at in range(200)]
    delays = [slot.at_ms - slot.slot_ms for slot in slots]
    assert all(0 <= delay < 30_000 for delay in delays)
    assert min(delays) < 3_000
    assert max(delays) > 27_000
    assert 12_000 < sum(delays) / len(delays) < 18_000
    other = Schedule(name="other", cron="* * * * *", target="t", jitter_ms=30_000)
    assert first_slot(other, ms("11:00")) != slots[0]


def test_jitter_never_carries_a_slot_past_the_one_that_follows() -> None:
    secondly = schedule("* * * * * *", jitter_ms=86_400_000)
    slots = [first_slot(secondly, ms("11:00") + 1000 * at) for at in range(100)]
    assert all(slot.slot_ms <= slot.at_ms < slot.slot_ms + 1000 for slot in slots)


def test_slot_waits_out_its_jitter_while_the_one_before_fires() -> None:
    minutely = schedule("* * * * *", jitter_ms=60_000)
    first, second = (first_slot(minutely, ms(text)) for text in ("10:59:00", "11:00:00"))
    made = plan(minutely, first.slot_ms, second.at_ms - 1)
    late = second.at_ms - 1 - first.at_ms > GRACE_MS
    assert (made.fire, made.next, late) == ((first.slot_ms,), second, late)
    assert plan(minutely, second.slot_ms, second.at_ms).fire == (second.slot_ms,)


@pytest.mark.parametrize("catch_up", ["skip", "once", "all(3)"])
def test_next_slot_always_lies_ahead_and_no_slot_is_planned_twice(catch_up: str) -> None:
    often = schedule("*/7 * * * *", catch_up=catch_up, jitter_ms=200_000)
    slot, now, fired = first_slot(often, ms("00:00")).slot_ms, ms("00:00"), list[int]()
    for at in range(400):
        now += (13_000, 1_000, 900_000, 47_000)[at % 4]
        made = plan(often, slot, now)
        assert made.next.slot_ms >= slot
        assert made.next.at_ms > now
        fired += made.fire
        slot = made.next.slot_ms
    assert fired == sorted(set(fired))
    assert len(fired) >= 5


@pytest.mark.parametrize("text", ["", "never", "all", "all()", "all(0)", "all(1001)", "all(-1)", "ALL(3)", "all(3) "])
def test_policy_is_refused_when_it_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r'write "skip", "once" or "all\(<max>\)"'):
        catch_up_most(text)


def test_policy_says_how_many() -> None:
    assert [catch_up_most(text) for text in ("skip", "once", "all(1)", "all(1000)")] == [0, 1, 1, 1000]

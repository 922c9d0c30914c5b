"""Slots that claim loops share: nothing over the count, nobody starved, more for whom has more to do."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.dispatch.slots import Slots, Turn
from gateway.dispatch.suspects import SuspectPlace
from gateway.settings import Settings
from tests.dispatch.running import claimed, client_of


class Loop:
    """A claim loop as the slots see it."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.told = 0
        self.turn = Turn(self._tell)

    def _tell(self) -> None:
        self.told += 1

    def reserve(self, most: int = 100) -> int:
        return self.slots.reserve(self.turn, most)


def test_one_loop_gets_what_is_free() -> None:
    slots = Slots(10)
    loop = Loop(slots)
    assert (loop.reserve(5), loop.reserve(), loop.reserve()) == (5, 5, 0)
    slots.give_back(3)
    assert (loop.told, loop.reserve(), slots.free) == (1, 3, 0)


def test_freed_slots_go_round_when_all_want_some() -> None:
    slots = Slots(1)
    loops = [Loop(slots) for _ in range(5)]
    assert loops[0].reserve() == 1
    served: Counter[int] = Counter()
    for _ in range(50):
        for loop in loops:
            assert loop.reserve() == 0
        slots.give_back(1)
        told = [at for at, loop in enumerate(loops) if loop.told]
        assert len(told) == 1, "one slot, and more than one loop was told"
        # the others ask first, and must not get ahead of it
        for at, loop in enumerate(loops):
            if at != told[0]:
                assert loop.reserve() == 0
        assert loops[told[0]].reserve() == 1
        served[told[0]] += 1
        loops[told[0]].told = 0
    assert set(served.values()) == {10}


def test_share_follows_what_each_has_to_do() -> None:
    slots = Slots(100)
    holder, deep, shallow = Loop(slots), Loop(slots), Loop(slots)
    deep.turn.fed(30, 30)
    shallow.turn.fed(30, 20)
    assert holder.reserve() == 100
    assert (deep.reserve(), shallow.reserve()) == (0, 0)
    slots.give_back(80)
    assert (deep.told, shallow.told) == (1, 1)
    assert (deep.reserve(), shallow.reserve()) == (60, 20)


def test_loop_that_is_away_keeps_its_place_and_holds_up_nobody() -> None:
    slots = Slots(1)
    holder, away, other = Loop(slots), Loop(slots), Loop(slots)
    assert holder.reserve() == 1
    assert (away.reserve(), other.reserve()) == (0, 0)
    away.turn.away = True
    slots.give_back(1)
    assert (away.told, other.told, other.reserve()) == (0, 1, 1)
    away.turn.away = False
    assert holder.reserve() == 0
    slots.give_back(1)
    assert (holder.reserve(), away.reserve()) == (0, 1)


def test_loop_that_left_is_told_nothing() -> None:
    slots = Slots(1)
    holder, left = Loop(slots), Loop(slots)
    assert (holder.reserve(), left.reserve()) == (1, 0)
    slots.leave(left.turn)
    slots.give_back(1)
    assert left.told == 0


def test_place_for_a_suspect_goes_round() -> None:
    slots = Slots(1)
    one, other = Loop(slots), Loop(slots)
    assert slots.reserve_suspect(one.turn)
    assert not slots.reserve_suspect(other.turn)
    slots.give_back_suspect()
    assert not slots.reserve_suspect(one.turn), "it had it last, and another asked"
    assert slots.reserve_suspect(other.turn)
    slots.give_back_suspect()
    assert slots.reserve_suspect(one.turn)


@pytest.mark.parametrize("most", [0, 3, 20])
def test_what_is_there_already_takes_no_more_than_is_free(most: int) -> None:
    slots = Slots(10)
    assert slots.take(most) == min(most, 10)
    assert slots.free == 10 - min(most, 10)


async def test_place_that_a_suspect_has_given_on_is_not_given_back_at_its_end(settings: Settings) -> None:
    slots, told = Slots(1), Counter[str]()
    loop, other = Loop(slots), Loop(slots)
    async with client_of(settings) as client:
        place = SuspectPlace(slots, client.store, lease_s=30, max_stalls=2, given_on=lambda: told.update(["free"]))
    first, second = claimed("hold", 1), claimed("hold", 1)
    assert slots.reserve_suspect(loop.turn)
    place.hold(first)
    place.leave(first)
    assert slots.reserve_suspect(other.turn)
    place.hold(second)
    place.leave(first)
    assert not slots.reserve_suspect(loop.turn), "the second has it"
    place.leave(second)
    assert slots.reserve_suspect(loop.turn)
    assert told["free"] == 2

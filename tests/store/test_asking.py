"""Several servers asked at once: a silent one costs a little, a slow one is waited for where there is no other."""

from __future__ import annotations

import asyncio

import pytest

from gateway.store.asking import ask_all

SOON_S, LATE_S = 0.05, 30.0


async def says(text: str) -> int | str:
    return int(text) if text.isdigit() else text


async def slowly(number: int) -> int | str:
    await asyncio.sleep(3 * SOON_S)
    return number


async def never() -> int | str:
    await asyncio.Event().wait()
    raise AssertionError


async def test_silent_one_is_not_waited_for_where_others_answered() -> None:
    async with asyncio.timeout(LATE_S / 2):
        assert await ask_all([says("1"), never(), says("2")], soon_s=SOON_S, late_s=LATE_S) == [
            *(1, "no answer in time", 2)
        ]


async def test_slow_one_is_waited_for_where_nobody_else_answered() -> None:
    async with asyncio.timeout(LATE_S / 2):
        answers = await ask_all([says("away"), slowly(7), never()], soon_s=SOON_S, late_s=LATE_S)
    assert answers == ["away", 7, "no answer in time"]


@pytest.mark.parametrize(("least", "found"), [(1, [1, "no answer in time"]), (2, [1, 7])])
async def test_as_many_are_waited_for_as_are_needed(least: int, found: list[int | str]) -> None:
    async with asyncio.timeout(LATE_S / 2):
        answers = await ask_all(
            [says("1"), slowly(7)], soon_s=SOON_S, late_s=LATE_S, enough=lambda known: len(known) >= least
        )
    assert answers == found


async def test_nobody_is_waited_for_when_all_are_silent() -> None:
    async with asyncio.timeout(LATE_S / 2):
        assert await ask_all([never()], soon_s=SOON_S, late_s=2 * SOON_S) == ["no answer in time"]

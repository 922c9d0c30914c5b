"""Answers that are believed for a while: who shares a question, and what is asked anew."""

from __future__ import annotations

import asyncio

import pytest

from gateway.api import believed
from gateway.api.believed import Believed


class Source:
    """Answers once it is told to; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.failing = False

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        if self.failing:
            raise ConnectionError("away")
        return number


async def test_who_asks_at_once_shares_one_question() -> None:
    source, answers = Source(), Believed[int](60)
    asking = [asyncio.ensure_future(answers.get("a", source.ask)) for _ in range(3)]
    await asyncio.sleep(0)
    assert answers.known("a") is None
    asking[0].cancel()
    source.may_answer.set()
    assert await asyncio.gather(*asking[1:]) == [1, 1]
    assert (answers.known("a"), await answers.get("a", source.ask)) == (1, 1)


@pytest.mark.parametrize("why", ["late", "forgotten", "failed"])
async def test_it_is_asked_anew_when_the_answer_is_not_believed(why: str) -> None:
    source, answers = Source(), Believed[int](-1 if why == "late" else 60)
    source.may_answer.set()
    source.failing = why == "failed"
    if source.failing:
        with pytest.raises(ConnectionError):
            await answers.get("a", source.ask)
        source.failing = False
    else:
        await answers.get("a", source.ask)
    if why == "forgotten":
        answers.forget("a")
    assert answers.known("a") is None
    assert await answers.get("a", source.ask) == 2


async def test_only_so_many_names_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(believed, "MOST", 2)
    source, answers = Source(), Believed[int](60)
    source.may_answer.set()
    for name in ("a", "b", "a", "c"):
        await answers.get(name, source.ask)
    assert [answers.known(name) for name in ("a", "b", "c")] == [None, 2, 3]

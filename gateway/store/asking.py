"""One question to several servers at once: who does not answer soon is not waited for, unless nobody else did.

And one to every partition, where each must answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from gateway.keys import Keyspace

T = TypeVar("T")

AT_ONCE = 16
"""Partitions that are asked at once: as many as a Cluster has by default."""


async def ask_all(
    questions: Sequence[Coroutine[Any, Any, T | str]],
    *,
    soon_s: float,
    late_s: float,
    enough: Callable[[Sequence[T]], bool] = bool,
) -> list[T | str]:
    """The answers, in order; a text says why there is none.

    After `soon_s` those count that are there, if they are enough (one is, if nothing else is said), and else as soon as
    they are, until `late_s`. A machine that is busy answers late, and one that is gone never does.
    """
    tasks = [asyncio.ensure_future(question) for question in questions]
    loop = asyncio.get_running_loop()
    until_s = loop.time() + late_s
    try:
        _, pending = await asyncio.wait(tasks, timeout=soon_s)
        while pending and loop.time() < until_s and not enough(_answers(tasks)):
            _, pending = await asyncio.wait(pending, timeout=until_s - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        return [task.result() if task.done() else "no answer in time" for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _answers(tasks: Sequence[asyncio.Future[T | str]]) -> list[T]:
    found = [task.result() for task in tasks if task.done()]
    return [answer for answer in found if not isinstance(answer, str)]


async def each_of(keyspaces: Sequence[Keyspace], work: Callable[[Keyspace], Awaitable[T]]) -> list[T]:
    """What the work brings for each partition, in order, some of them at once; raises the first one's failure."""
    brought: list[T] = []
    for first in range(0, len(keyspaces), AT_ONCE):
        works = (work(keyspace) for keyspace in keyspaces[first : first + AT_ONCE])
        for result in await asyncio.gather(*works, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            brought.append(result)
    return brought

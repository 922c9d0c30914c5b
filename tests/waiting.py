"""Waiting for what a test cannot be told of: asked again and again, never longer than a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(true: Callable[[], Awaitable[bool]], *, timeout_s: float = 20.0, every_s: float = 0.01) -> None:
    """Returns once `true()` is; raises TimeoutError after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while not await true():  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(every_s)


async def until_so(true: Callable[[], bool], *, timeout_s: float = 20.0, every_s: float = 0.01) -> None:
    """As `until`, for what is told at once."""

    async def so() -> bool:
        return true()

    await until(so, timeout_s=timeout_s, every_s=every_s)


async def soon(ask: Callable[[], Awaitable[T]], *, within_s: float, tries: int = 5) -> T:
    """What `ask` gave, once it did so in time: a busy machine may take its time now and then, what is broken always."""
    took_s: list[float] = []
    while len(took_s) < tries:
        began_s = time.monotonic()
        given = await ask()
        took_s.append(time.monotonic() - began_s)
        if took_s[-1] < within_s:
            return given
    raise AssertionError(f"never within {within_s} s: {took_s}")


async def ended(task: asyncio.Task[None]) -> None:
    """Cancels until it has ended: before Python 3.12 `wait_for`, which redis-py uses, may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.2)


def until_sync(true: Callable[[], bool], *, timeout_s: float = 20.0, every_s: float = 0.02) -> None:
    """As `until`, for tests that have no event loop."""
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s} s")
        time.sleep(every_s)

"""A plugin whose executor ends its attempts in ways that no executor should, as each job's payload says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from gateway import Attempt, Deferred, Executor, Fatal, Result, Retry, hookimpl


class StrayConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None of its own."""


class _Own(BaseException):
    """No Exception."""


def _raise(error: BaseException) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


async def _cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def _cancelled_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _cancelled_task_later() -> None:
    await asyncio.sleep(0)
    await _cancelled_task()


STRAY: dict[str, Callable[[], Any]] = {
    "a future that was cancelled": _cancelled_future,
    "its own task cancelled": _cancelled_task,
    "its own task cancelled later": _cancelled_task_later,
    "CancelledError": _raise(asyncio.CancelledError()),
    "SystemExit": _raise(SystemExit(3)),
    "KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "GeneratorExit": _raise(GeneratorExit()),
    "a BaseException of its own": _raise(_Own("own")),
}
"""What fails the attempt; the value is called, and awaited if that is to be."""

DELAYS = {"huge": _raise(Retry("later", after=10**400)), "huge and negative": _raise(Retry("later", after=-(10**400)))}

WAITS_S = 0.4
"""How long some wait before their time begins."""

UNFIT: dict[str, object] = {
    "no number": float("nan"),
    "infinite": float("inf"),
    "too large": 10**400,
    "too small": -1,
    "a text": "1",
}
"""No time that a deferred attempt can be given."""


class Stray(Executor[StrayConfig]):
    name = "stray"
    Config = StrayConfig
    defers = True

    async def execute(self, attempt: Attempt[StrayConfig]) -> Result | Deferred:
        how = attempt.payload.value
        if how in UNFIT:
            return Deferred(UNFIT[how])  # type: ignore[arg-type]
        if how.startswith("waits"):
            return await self._wait(attempt, how)
        ways = STRAY | DELAYS
        if how not in ways:
            raise Fatal(f"no way {how!r}")
        waits = ways[how]()
        if waits is not None:
            await waits
        return Result("reached its end")

    async def _wait(self, attempt: Attempt[StrayConfig], how: str) -> Result:
        await attempt.untimed(asyncio.sleep(3600 if how == "waits for ever" else WAITS_S))
        if how == "waits, then hangs":
            await asyncio.sleep(3600)
        return Result(attempt.remaining_s())


@hookimpl
def register_executors() -> list[Executor[Any]]:
    return [Stray()]

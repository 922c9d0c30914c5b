"""Counts of what work costs: Redis's own of commands, and Python's of calls."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gateway.store import Store

SCRIPT_CALLS = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
OUTSIDE = ("cmdstat_info",)
"""Commands that the counting itself sends."""


@dataclass(slots=True)
class Commands:
    """What Redis carried out between two looks."""

    all: int = 0
    scripts: int = 0


async def commands(store: Store) -> Commands:
    """What the server has carried out so far, inside scripts too."""
    stats: dict[str, dict[str, Any]] = await store.client.info("commandstats")
    calls = {name: int(each["calls"]) for name, each in stats.items() if name not in OUTSIDE}
    return Commands(sum(calls.values()), sum(calls.get(name, 0) for name in SCRIPT_CALLS))


async def between(store: Store, before: Commands) -> Commands:
    """What it has carried out since."""
    now = await commands(store)
    return Commands(now.all - before.all, now.scripts - before.scripts)


def round_trips(store: Store) -> int:
    """How often this store's client has written to Redis and waited for the reply of a script."""
    samples = [sample for metric in store.client.calls.collect() for sample in metric.samples]
    return int(sum(each.value for each in samples if each.name == "gateway_redis_call_duration_seconds_count"))


@contextmanager
def no_time_passes() -> Iterator[None]:
    """The loop's clock stands still, so that what goes by it (a deliveries' journal, a look at the loop's lag) does not
    come in between, and is counted, as often as the machine is slow. What was due before may still come, once."""
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    loop.time = lambda: now_s  # type: ignore[method-assign]
    try:
        yield
    finally:
        del loop.time


@dataclass(slots=True)
class Calls:
    count: int = 0


@contextmanager
def python_calls() -> Iterator[Calls]:
    """Counts every call of a function in this thread, of Python's and of C's, each resumption of a coroutine as one."""
    calls = Calls()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            calls.count += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)

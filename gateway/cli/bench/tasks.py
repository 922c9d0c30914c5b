"""The callables that measurements run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from gateway import Context, Retry


class Starts:
    """When jobs started, in Unix seconds by number; `complete` is set once `expected` did."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}
        self.expected = 0
        self.complete = asyncio.Event()

    def expect(self, jobs: int) -> None:
        """Starts anew."""
        self.at, self.expected = {}, jobs
        self.complete = asyncio.Event()  # of this event loop: `bench all` has one for each measurement

    def add(self, number: int) -> None:
        self.at[number] = time.time()
        if len(self.at) == self.expected:
            self.complete.set()


STARTS = Starts()


async def noop(payload: Any) -> None:
    """Does nothing."""


async def note(payload: int) -> None:
    """Notes that the job of that number started."""
    STARTS.add(payload)


async def stamp(path: str) -> None:
    """Notes in a file that a job started, and when: several processes may."""
    with open(path, "a") as file:  # noqa: ASYNC230 (one line; the file's end is what several processes share)
        file.write(f"{time.time()!r}\n")


async def doze(payload: Any) -> None:
    """Takes 5 ms, of which the processor has next to none."""
    await asyncio.sleep(0.005)


async def fail_once(payload: int, context: Context) -> None:
    """Fails at the first attempt, and notes the start of the second."""
    if context.attempt == 1:
        raise Retry("the first attempt fails")
    STARTS.add(payload)


class Runs:
    """How often each job ran, by number."""

    def __init__(self) -> None:
        self.of: Counter[int] = Counter()


RUNS = Runs()


async def count(payload: int) -> None:
    """Counts a run of the job of that number."""
    RUNS.of[payload] += 1

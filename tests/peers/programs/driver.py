"""What the program of every peer does alike: records runs, and submits in bulk, one by one, together, and at a pace.

It runs in the peer's own environment, so it imports nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

URL = os.environ["PEER_REDIS_URL"]
RECORD = struct.Struct("<qd")
TOGETHER = 50
BULK = 500

_record = os.open(os.environ["PEER_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def ran(number: int) -> None:
    """Records that the job of that number runs, and when: one line of a file that all processes append to."""
    os.write(_record, RECORD.pack(number, time.time()))


@dataclass(frozen=True)
class Submits:
    """How a peer takes jobs in; `together` False where its client blocks, `bulk` None where it has no such call."""

    single: Callable[[int], Awaitable[Any]]
    bulk: Callable[[Sequence[int]], Awaitable[Any]] | None = None
    together: bool = True
    around: AbstractAsyncContextManager[Any] | None = None


def main(submits: Submits) -> None:
    """`bulk N`, `single N`, `together N`: prints when it began and the jobs per second; `pace N RATE`: when each was
    sent."""
    how, count = sys.argv[1], int(sys.argv[2])
    print(json.dumps(asyncio.run(_submit(submits, how, count))))


async def _submit(submits: Submits, how: str, count: int) -> Any:
    async with submits.around or nullcontext():
        if how == "pace":
            return await _pace(submits, count, float(sys.argv[3]))
        began_at, began = time.time(), time.perf_counter()
        if how == "bulk" and submits.bulk is not None:
            for first in range(0, count, BULK):
                await submits.bulk(range(first, min(count, first + BULK)))
        elif how == "single" or not submits.together:
            for number in range(count):
                await submits.single(number)
        else:
            await _together(submits, count)
        return began_at, count / (time.perf_counter() - began)


async def _together(submits: Submits, count: int) -> None:
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await submits.single(number)

    await asyncio.gather(*(some() for _ in range(TOGETHER)))


async def _pace(submits: Submits, count: int, rate: float) -> list[float]:
    sent: list[float] = []
    began = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        sent.append(time.time())
        await submits.single(number)
    return sent

"""The loops that keep a partition in order: taking back lost jobs, and removing what is past its retention."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import structlog

from gateway.errors import StoreError
from gateway.store import RetentionLimits, Worker

log = structlog.get_logger(__name__)

REAP_MOST = 500
REMOVE_MOST = 500


async def reap(
    worker: Worker,
    *,
    max_stalls: int,
    every_s: float,
    rng: random.Random,
    taken_back: Callable[[Sequence[tuple[str, str]]], Awaitable[None]],
) -> None:
    """Takes back jobs whose lease ran out, about each `every_s`, and hands ids and statuses to `taken_back`; runs until
    cancelled."""
    while True:
        try:
            taken = await worker.reap(REAP_MOST, max_stalls=max_stalls)
            if taken:
                await taken_back(taken)
            if len(taken) == REAP_MOST:
                continue
        except StoreError as error:
            log.warning("reap failed", error=str(error))
        await asyncio.sleep(every_s * rng.uniform(0.8, 1.2))


async def upkeep(
    worker: Worker,
    limits: RetentionLimits,
    *,
    every_s: float,
    rng: random.Random,
    removed: Callable[[int], None] = lambda n: None,
) -> None:
    """Keeps finished and dead jobs within their retention; runs until cancelled."""
    while True:
        try:
            count, more, lost = await worker.upkeep(limits, most=REMOVE_MOST)
            removed(count)
            if lost:
                log.warning("dispatchers lost", count=lost)
            if more:
                continue
        except StoreError as error:
            log.warning("upkeep failed", error=str(error))
        await asyncio.sleep(every_s * rng.uniform(0.8, 1.2))

"""The loop that carries bulk replays on: every dispatcher runs it, and the scripts keep the rate over all of them."""

from __future__ import annotations

import asyncio
import random

import structlog

from gateway.errors import StoreError
from gateway.store import Store
from gateway.store.replays import ReplaySteps, step_replays

log = structlog.get_logger(__name__)

PAUSE_S = 0.02
"""Between two steps at least, so that live work comes in between."""


async def carry_replays(store: Store, *, idle_s: float, rng: random.Random) -> None:
    """Steps the replays under way, and looks for new ones about each `idle_s`; runs until cancelled."""
    steps = ReplaySteps()
    while True:
        wait_s: float | None = None
        try:
            wait_s = await step_replays(store, steps)
        except StoreError as error:
            log.warning("replays interrupted", error=str(error))
        pause_s = idle_s if wait_s is None else min(max(wait_s, PAUSE_S), idle_s)
        await asyncio.sleep(pause_s * rng.uniform(0.9, 1.3))

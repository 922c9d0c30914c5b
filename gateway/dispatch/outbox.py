"""The loop that hands over what a partition's outbox holds; every dispatcher runs one for each, and no two disturb."""

from __future__ import annotations

import asyncio
import contextlib
import random

import structlog

from gateway.errors import StoreError
from gateway.store import Store
from gateway.store.outbox import forward, take_posted

log = structlog.get_logger(__name__)

MOST = 100
POLL_S = (2.0, 4.0)
"""Between these, at random: a hint comes with what is put there, and this is behind it."""


class Forwarder:
    """Empties the outbox of one partition whenever it is told to, and looks into it now and then."""

    def __init__(self, store: Store, partition: int, *, rng: random.Random) -> None:
        self._store = store
        self._partition = partition
        self._rng = rng
        self._told = asyncio.Event()

    def wake(self) -> None:
        """There is something in the outbox."""
        self._told.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._told.clear()
            try:
                await self._empty()
            except StoreError as error:
                log.warning("outbox not read", partition=self._partition, error=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rng.uniform(*POLL_S)):
                    await self._told.wait()

    async def _empty(self) -> None:
        done: list[str] = []
        while True:
            posted, more = await take_posted(self._store, self._partition, done=done, most=MOST)
            done = await forward(self._store, posted) if posted else []
            if not done and not more:
                return

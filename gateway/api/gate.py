"""The store's door: shut until Redis was found fit for our data, opened without a restart once it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from gateway.errors import StoreError, StoreUnavailable
from gateway.pauses import Pauses
from gateway.store import Store

T = TypeVar("T")

ATTEMPT_S = 1.5
RETRY_S = (0.25, 2.0)
PROBE_S = 1.0

log = structlog.get_logger(__name__)


class StoreGate:
    """Says whether the store may be used; `run` keeps trying to open it until it may."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._attempt: asyncio.Task[None] | None = None
        self._refused_until_s = 0.0
        self._problem: StoreError = StoreUnavailable("Redis has not answered yet")
        self.open = False

    async def require(self) -> None:
        """Returns if the store may be used; else tries once (all callers share one try) and raises StoreError."""
        if self.open:
            return
        if asyncio.get_running_loop().time() < self._refused_until_s:
            raise self._problem
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._configure())
        await asyncio.shield(self._attempt)

    async def run(self) -> None:
        """Tries again and again, with jitter, until the store is open."""
        pauses = Pauses(*RETRY_S)
        while not self.open:
            try:
                await self.require()
            except StoreError as error:
                pause_s = pauses.next_s()
                log.warning("waiting for Redis", error=str(error), retry_in_s=round(pause_s, 2))
                await asyncio.sleep(pause_s)

    async def aclose(self) -> None:
        """Ends a try that is under way."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait([self._attempt])

    async def probe(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store answers; raises StoreError unless it does within a second."""
        await self.require()
        return await in_time(ask, PROBE_S)

    async def _configure(self) -> None:
        try:
            await in_time(self._store.configure, ATTEMPT_S)
            self.open = True
        except StoreError as error:
            self._problem = error
            self._refused_until_s = asyncio.get_running_loop().time() + RETRY_S[0] / 2
            raise
        finally:
            self._attempt = None


async def in_time(work: Callable[[], Awaitable[T]], seconds: float) -> T:
    """What the work brings; StoreUnavailable if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work()
    except TimeoutError as exc:
        raise StoreUnavailable("Redis does not answer in time") from exc

"""Signs of life: an attempt that must give them, and is ended when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from gateway.errors import Retry

T = TypeVar("T")


class Pulse:
    """Ends what it guards with a Retry `limit_s` after the last `beat()`; None: never, and a beat means nothing."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._timeout: asyncio.Timeout | None = None
        self.expired = False
        """Whether it has ended what it guarded."""

    def beat(self) -> None:
        """A sign of life; from any thread."""
        if self._limit_s is not None:
            self._loop.call_soon_threadsafe(self._extend)

    async def guard(self, work: Awaitable[T]) -> T:
        """What the work gives, unless it goes still."""
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                self._timeout = limit
                return await work
        except TimeoutError as exc:
            self.expired = limit.expired()
            if self.expired:
                raise Retry(f"no sign of life for {self._limit_s:g} s", type="heartbeat") from exc
            raise
        finally:
            self._timeout = None

    def _extend(self) -> None:
        if self._timeout is not None and self._limit_s is not None and not self._timeout.expired():
            self._timeout.reschedule(self._loop.time() + self._limit_s)

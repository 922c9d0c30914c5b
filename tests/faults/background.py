"""An event loop in a thread of its own, for what must go on while the suite waits: proxies and receivers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Use it as a context manager; what was entered is left in the reverse order."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="background", daemon=True)
        self._stack = AsyncExitStack()

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float = 30.0) -> T:
        """Runs it in the loop, and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        return self.run(self._stack.enter_async_context(manager))

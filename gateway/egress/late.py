"""The guarded client of a process that may never call out: loaded and opened when the first request is made.

With aiohttp and the authorities that it trusts it takes 8 MB, for which a dispatcher of functions and commands has no
use until a job asks for a callback.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from gateway.egress.addresses import parse_allow
from gateway.executor import HttpClient, HttpResponse


class _Guarded(HttpClient, Protocol):
    async def start(self) -> None: ...

    async def aclose(self) -> None: ...


class LateClient:
    """Implements `HttpClient` by the guarded one, which it opens once, by itself or when it is asked to.

    `allow` is the `[egress] allow` list; ValueError if an entry is nothing that can be allowed.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        parse_allow(allow)
        self._allow = allow
        self._guarded: _Guarded | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Loads and opens the client now, in a thread: the event loop turns meanwhile."""
        await self._opened()

    async def request(self, method: str, url: str, **options: Any) -> HttpResponse:
        """As the guarded client has it."""
        guarded = self._guarded or await self._opened()
        return await guarded.request(method, url, **options)

    async def _opened(self) -> _Guarded:
        async with self._opening:
            if self._guarded is None:
                guarded = await asyncio.to_thread(_make, self._allow)
                await guarded.start()
                self._guarded = guarded
            return self._guarded

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._guarded is not None:
            await self._guarded.aclose()


def _make(allow: Sequence[str]) -> _Guarded:
    client: _Guarded = importlib.import_module("gateway.egress.client").EgressClient(allow)
    return client

"""Both clients behind one face, so that each test is of both: the blocking one runs in a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from operator import attrgetter
from typing import Any

import httpx

from gateway.client import AsyncGateway, Gateway


class Either:
    """`await either("targets.pause", "echo")` calls that method of the client; listings come back as lists."""

    def __init__(self, client: Gateway | AsyncGateway) -> None:
        self.client = client

    async def __call__(self, method: str, *args: Any, **options: Any) -> Any:
        if isinstance(self.client, Gateway):
            return await asyncio.to_thread(self._blocking, method, args, options)
        found = attrgetter(method)(self.client)(*args, **options)
        if isinstance(found, AsyncIterator):
            return [item async for item in found]
        return await found if inspect.isawaitable(found) else found

    async def aclose(self) -> None:
        if isinstance(self.client, Gateway):
            self.client.close()
        else:
            await self.client.aclose()

    def _blocking(self, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        found = attrgetter(method)(self.client)(*args, **options)
        return list(found) if isinstance(found, Iterator) else found


def make(kind: str, url: str, *, pauses: list[float] | None = None, **options: Any) -> Either:
    """A client of a kind, `blocking` or `asynchronous`; with `pauses` it notes them there instead of waiting."""
    if kind == "blocking":
        if pauses is not None:
            options["sleep"] = pauses.append
        return Either(Gateway(url, **options))
    if pauses is not None:

        async def note(seconds: float) -> None:
            pauses.append(seconds)

        options["sleep"] = note
    return Either(AsyncGateway(url, **options))


KINDS = ("blocking", "asynchronous")


def lost(request: httpx.Request) -> httpx.Response:
    """An answer that is lost on its way."""
    raise httpx.ReadError("the connection was reset", request=request)


def refused(request: httpx.Request) -> httpx.Response:
    """A request that cannot have been sent."""
    raise httpx.ConnectError("connection refused", request=request)

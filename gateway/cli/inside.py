"""Requests to an application in the same process, without a socket; answers come piece by piece, streams too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

_CLOSE_S = 5.0


class InsideTransport(httpx.AsyncBaseTransport):
    """What httpx's own cannot: an answer is there as soon as it begins, so events can be followed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = _Answer(self._app, _scope(request), await request.aread())
        try:
            status, headers = await answer.head()
        except BaseException:
            await answer.aclose()
            raise
        return httpx.Response(status, headers=headers, stream=answer)


class _Answer(httpx.AsyncByteStream):
    """One call of the application, which runs as a task until the answer is whole or closed."""

    def __init__(self, app: ASGIApp, scope: dict[str, Any], body: bytes) -> None:
        self._body: bytes | None = body
        self._head: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=16)
        self._gone = asyncio.Event()
        self._task = asyncio.create_task(self._run(app, scope))

    async def head(self) -> tuple[int, Any]:
        """Status and headers; whatever the application raises before them."""
        waiting: list[asyncio.Future[Any]] = [self._task, self._head]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not self._head.done():
            self._task.result()
            raise httpx.RemoteProtocolError("the gateway ended without an answer")
        return self._head.result()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def aclose(self) -> None:
        self._gone.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task, _CLOSE_S)

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head.set_result((message["status"], list(message.get("headers", []))))
            return
        if self._gone.is_set():
            return
        if message.get("body"):
            await self._pieces.put(message["body"])
        if not message.get("more_body", False):
            await self._pieces.put(None)


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
        "state": {},
    }

"""A lean HTTP client: each of its connections sends the next request as soon as its answer is whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

_STEP_S = 300.0
_LENGTH = b"\r\ncontent-length: "


def request(path: str, body: bytes, *, headers: str = "") -> bytes:
    """A POST of JSON; `headers` are more of them, each with its line's end."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n{headers}\r\n".encode() + body


async def send(port: int, make: Callable[[], bytes], count: int, *, connections: int) -> float:
    """Seconds until as many requests are answered with 2xx; raises RuntimeError on any other answer."""
    loop = asyncio.get_running_loop()
    left = count

    def take() -> bytes | None:
        nonlocal left
        left -= 1
        return make() if left >= 0 else None

    began_s = time.perf_counter()
    done = [loop.create_future() for _ in range(connections)]
    async with asyncio.timeout(_STEP_S):
        for each in done:
            await loop.create_connection(lambda each=each: _Connection(take, each), "127.0.0.1", port)  # type: ignore[misc]
        await asyncio.gather(*done)
    return time.perf_counter() - began_s


class Paced:
    """One connection on which requests are sent when the caller says so."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Paced:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, text: bytes) -> bytes:
        """The answer's body; raises RuntimeError unless it is 2xx."""
        async with asyncio.timeout(_STEP_S):
            self._writer.write(text)
            head = await self._reader.readuntil(b"\r\n\r\n")
            body = await self._reader.readexactly(_length(head))
        _check(head + body)
        return body


class _Connection(asyncio.Protocol):
    """Asks `take` for what to send, until there is nothing left."""

    def __init__(self, take: Callable[[], bytes | None], done: asyncio.Future[None]) -> None:
        self._take = take
        self._done = done
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._next()

    def data_received(self, data: bytes) -> None:
        self._data = data = self._data + data if self._data else data
        end = data.find(b"\r\n\r\n")
        if end < 0 or len(data) < end + 4 + _length(data):
            return
        try:
            _check(data)
        except RuntimeError as error:
            self._end(error)
            return
        self._data = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionError("the server closed a connection"))

    def _next(self) -> None:
        assert self._transport is not None
        text = self._take()
        if text is None:
            self._end(None)
            self._transport.close()
        else:
            self._transport.write(text)

    def _end(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error) if error else self._done.set_result(None)


def _length(head: bytes) -> int:
    at = head.index(_LENGTH) + len(_LENGTH)
    return int(head[at : head.index(b"\r\n", at)])


def _check(answer: bytes) -> None:
    if not answer.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"not taken in: {answer[:500]!r}")

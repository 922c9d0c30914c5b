"""A proxy before a gateway that kills connections in the middle of a request, or of its answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

_CHUNK = 1 << 16
Cut = Literal["request", "answer"]
"""`request`: half of it was passed on; `answer`: the gateway has done the work and nobody hears of it."""


class CuttingProxy:
    """Kills the first `cuts` connections there, and passes the others on; use it as an async context manager."""

    def __init__(self, port: int, cut: Cut, *, cuts: int) -> None:
        self._port, self._cut, self._left = port, cut, cuts
        self._listener: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self.killed = 0

    @property
    def url(self) -> str:
        assert self._listener is not None
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> CuttingProxy:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        link.add_done_callback(self._links.discard)
        with contextlib.suppress(asyncio.CancelledError, OSError):
            doomed, self._left = self._left > 0, max(0, self._left - 1)
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                if doomed:
                    await self._kill(reader, up_reader, up_writer)
                else:
                    await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
            finally:
                up_writer.close()
                writer.transport.abort()

    async def _kill(
        self, reader: asyncio.StreamReader, up_reader: asyncio.StreamReader, up_writer: asyncio.StreamWriter
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: "))
        body = await reader.readexactly(length)
        up_writer.write(head + (body if self._cut == "answer" else body[: length // 2]))
        await up_writer.drain()
        if self._cut == "answer":
            assert (await up_reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 20")
        self.killed += 1


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()

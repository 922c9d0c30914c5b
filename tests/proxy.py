"""A proxy before a test server that loses replies: the server has done the work, and the client cannot know."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from gateway.store import Store
from gateway.store.functions import load
from gateway.store.scripts import script
from tests.servers import Server

_CHUNK = 1 << 16


class Proxy:
    """Listens on a loopback port; use it as an async context manager."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listener: asyncio.Server | None = None
        self._pattern = b""
        self._links: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.lost = 0
        self.delay_s = 0.0
        """Held back before each reply."""

    @property
    def url(self) -> str:
        assert self._listener is not None
        return f"redis://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}/0"

    def lose_reply_to(self, text: str) -> None:
        """The next request that holds `text` is carried out; its reply is dropped, and its connection with it."""
        self._pattern = text.encode()

    def drop_connections(self) -> None:
        """Ends all that there are, with what is on its way in them; new ones are taken."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for link in self._links:
            link.cancel()
        if self._links:
            await asyncio.wait(self._links)
        await self._listener.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        link.add_done_callback(self._links.discard)
        self._writers.add(writer)
        try:
            await self._link(reader, writer)
        except OSError:
            writer.close()  # the server is away
        except asyncio.CancelledError:
            pass  # a test's end, which start_server would report as a fault
        finally:
            self._writers.discard(writer)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _upstream(self._server) as (up_reader, up_writer):
            doomed = asyncio.Event()
            pumps = [
                asyncio.create_task(self._forward(reader, up_writer, doomed)),
                asyncio.create_task(self._answer(up_reader, writer, doomed)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                writer.close()
                for pump in pumps:
                    pump.cancel()
                await asyncio.wait(pumps)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._pattern and self._pattern in data:
                    self._pattern = b""
                    doomed.set()
                writer.write(data)
                await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if doomed.is_set():  # and with it the replies before it that have not left yet
                    self.lost += 1
                    return
                writer.write(data)
                await writer.drain()


@contextlib.asynccontextmanager
async def _upstream(server: Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(str(server.socket))
    try:
        yield reader, writer
    finally:
        writer.close()


async def load_scripts(store: Store, *names: str) -> None:
    """Lets the server know scripts, or the reply that is lost says no more than that it does not."""
    for name in names:
        it = script(name)
        await store.client.script_load(it.source)
        if it.is_function:
            await load(store.client, store.keyspaces[0].prefix, it.family, it.library)

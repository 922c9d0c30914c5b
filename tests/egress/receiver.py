"""A raw loopback server: each connection runs a script, so it can be as rude as the test needs."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import pytest

from gateway import HttpError


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came: header names in lower case, in order."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


@dataclass
class Peer:
    """One connection, as its script sees it; `number` counts the server's connections from 1."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[Received]
    arrivals: asyncio.Queue[Received]

    async def read(self) -> Received | None:
        """The next request, or None when the client has closed."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *rest = head.removesuffix("\r\n\r\n").split("\r\n")
            pairs = tuple((name.lower(), value.strip()) for name, _, value in (each.partition(":") for each in rest))
            length = int(dict(pairs).get("content-length", "0"))
            body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        method, path, _ = line.split(" ")
        received = Received(method, path, pairs, body)
        self.requests.append(received)
        self.arrivals.put_nowait(received)
        return received

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Closes with RST."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class Receiver:
    """Serves `script` on a free port of `host` while the context is open."""

    script: Script
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    connections: int = 0
    requests: list[Received] = field(default_factory=list)
    arrivals: asyncio.Queue[Received] = field(default_factory=asyncio.Queue)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the script of any connection has ended."""

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._accept, self.host, 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/in"

    async def arrived(self, count: int = 1) -> None:
        """Returns when `count` further requests have come, within ten seconds."""
        async with asyncio.timeout(10):
            for _ in range(count):
                await self.arrivals.get()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        peer = Peer(self.connections, reader, writer, self.requests, self.arrivals)
        self._tasks.add(asyncio.create_task(self._serve(peer)))

    async def _serve(self, peer: Peer) -> None:
        try:
            await self.script(peer)
        except ConnectionError:
            pass
        finally:
            self.left.set()
            peer.writer.close()


def answer(status: str = "200 OK", body: bytes = b"", *headers: str) -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def always(data: bytes) -> Script:
    """Answers every request of every connection with the same bytes."""

    async def script(peer: Peer) -> None:
        while await peer.read() is not None:
            await peer.write(data)

    return script


def replies(data: bytes) -> Script:
    """Answers the first request of each connection with raw bytes, and closes."""

    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(data)

    return script


async def stall(peer: Peer) -> None:
    """Reads, and never answers."""
    while await peer.read() is not None:
        pass


async def nowhere(host: str) -> list[str]:
    """A lookup that must not be needed."""
    raise AssertionError(f"{host} was looked up")


def resolving(**addresses: list[str]) -> Callable[[str], Awaitable[list[str]]]:
    """A lookup of fixed answers: `pay_internal=[…]` answers for `pay.internal`; any other name does not exist."""

    async def lookup(host: str) -> list[str]:
        found = addresses.get(host.replace(".", "_"))
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found

    return lookup


async def kind_of(request: Awaitable[object]) -> str:
    with pytest.raises(HttpError) as caught:
        await request
    return caught.value.kind

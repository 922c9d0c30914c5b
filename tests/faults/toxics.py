"""A proxy before Redis that makes the network bad: late, slow, in pieces, silent, or torn."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from dataclasses import dataclass

from tests.proxy import Proxy
from tests.servers import Server

_CHUNK = 1 << 16


@dataclass(slots=True)
class Toxics:
    """What the network does to each piece of data, both ways; everything may be changed while it runs."""

    latency_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0
    slice_bytes: int = 0
    """Hands on at most so many bytes at once."""

    silent: bool = False
    """A black hole: takes everything, hands on nothing, and closes no connection."""

    limit_bytes: int = 0
    """A connection is torn by an RST after so many bytes of answers."""


class ToxicProxy(Proxy):
    """As its `toxics` say; `reset()` tears every connection at once."""

    def __init__(self, server: Server, draw: random.Random) -> None:
        super().__init__(server)
        self.toxics = Toxics()
        self.resets = 0
        self._draw = draw
        self._clients: set[asyncio.StreamWriter] = set()

    async def reset(self) -> int:
        """RST on every connection, whatever is under way on it: how many there were."""
        found = list(self._clients)
        for writer in found:
            self._tear(writer)
        return len(found)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._hand_on(data, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        self._clients.add(writer)
        passed = 0
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(_CHUNK):
                    passed += len(data)
                    if self.toxics.limit_bytes and passed > self.toxics.limit_bytes:
                        self._tear(writer)
                        return
                    await self._hand_on(data, writer)
        finally:
            self._clients.discard(writer)

    async def _hand_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        toxics = self.toxics
        while toxics.silent:  # noqa: ASYNC110 (it is set from another thread)
            await asyncio.sleep(0.02)
        if toxics.latency_s or toxics.jitter_s:
            await asyncio.sleep(toxics.latency_s + toxics.jitter_s * self._draw.random())
        size = toxics.slice_bytes or len(data)
        for first in range(0, len(data), size):
            part = data[first : first + size]
            if toxics.bytes_per_s:
                await asyncio.sleep(len(part) / toxics.bytes_per_s)
            writer.write(part)
            await writer.drain()

    def _tear(self, writer: asyncio.StreamWriter) -> None:
        self.resets += 1
        sock: socket.socket = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

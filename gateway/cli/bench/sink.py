"""A loopback HTTP server that costs next to nothing, in a process of its own: what call-outs are measured against.

Each answer's body is the clock (ns) at which its request was whole; every process of a machine reads the same one.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import uvloop

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Sink(asyncio.Protocol):
    """Answers every request with 200 and the time."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (size := _whole(self._buffer)) > 0:
            self._buffer = self._buffer[size:]
            body = b"%d" % time.monotonic_ns()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)


def _whole(buffer: bytes) -> int:
    """Bytes of the first request, 0 while it is not all there."""
    end = buffer.find(_END)
    if end < 0:
        return 0
    head = buffer[:end].lower()
    at = head.find(_LENGTH)
    length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    size = end + len(_END) + length
    return size if len(buffer) >= size else 0


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # its end is that of whoever started it: nothing is left behind however that ends
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve())

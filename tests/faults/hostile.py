"""How targets answer that are out for harm."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

from tests.egress.receiver import Peer, answer

BOMB = gzip.compress(gzip.compress(bytes(64_000_000)))
MOST_S = 20.0


async def hole(peer: Peer) -> None:
    """Never answers."""
    await asyncio.sleep(MOST_S)


async def drip(peer: Peer) -> None:
    """One byte of a header each half second."""
    for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"y" * 100:
        await peer.write(bytes([byte]))
        await asyncio.sleep(0.5)


async def bomb(peer: Peer) -> None:
    """A small body that is 64 MB when it is unpacked."""
    await peer.write(answer("200 OK", BOMB, "Content-Encoding: gzip, gzip"))


async def headers(peer: Peer) -> None:
    """Ten megabytes of headers."""
    await peer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        await peer.write(b"x-%d: " % number + b"y" * 1000 + b"\r\n")
    await peer.write(b"\r\n")


async def endless(peer: Peer) -> None:
    """A body without an end."""
    await peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await peer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")


async def truncated(peer: Peer) -> None:
    """Less than it says."""
    await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    peer.reset()


async def informational(peer: Peer) -> None:
    """One 1xx after the other."""
    while True:
        await peer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.001)


async def redirect(peer: Peer) -> None:
    """Sends whoever asks to where he must not go."""
    await peer.write(answer("302 Found", b"", "Location: /forbidden"))


BEHAVIOURS: dict[str, Callable[[Peer], Awaitable[None]]] = {
    f"/{each.__name__}": each for each in (hole, drip, bomb, headers, endless, truncated, informational, redirect)
}
"""By the path that is asked for."""

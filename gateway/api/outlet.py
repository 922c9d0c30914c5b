"""What answers are written to."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sys
import termios
from collections.abc import Callable

import structlog

MAX_DISCARDED_BYTES = 32 * 1024 * 1024
"""Of what nobody reads any more; a client that sends more may never see its answer."""

DISCARD_S = 5.0
"""So long nothing may arrive of it."""

DISCARDS_MOST = 6
"""So often `DISCARD_S` may begin anew."""

UNREAD_S = 30.0
UNREAD_BYTES = 64 * 1024
"""So many bytes a client must take of an answer that waits for it, in each `UNREAD_S`."""

log = structlog.get_logger(__name__)


class Outlet:
    """A transport as uvicorn writes to it: takes what comes once it has `ended`, and is closed as `close` says."""

    __slots__ = ("_transport", "close", "ended", "is_closing")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self.is_closing = transport.is_closing
        self.close = close
        self.ended = False

    def write(self, data: bytes) -> None:
        """Drops what nobody would get any more."""
        if not self.ended and not self.is_closing():
            self._transport.write(data)


class Unread:
    """An answer larger than the kernel takes at once: the connection is dropped once its client takes next to nothing
    of it for `UNREAD_S`. One whose answers are merely far between has nothing waiting, and is left alone."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._begin(self._waiting())

    def end(self) -> None:
        """Most of it is taken, or the connection is gone."""
        self._timer.cancel()

    def _begin(self, waiting: int) -> None:
        self._before = waiting
        self._timer = self._loop.call_later(UNREAD_S, self._look)

    def _look(self) -> None:
        waiting = self._waiting()
        if waiting <= self._before - UNREAD_BYTES:
            self._begin(waiting)
        else:
            log.info("a client did not read its answer and was dropped", unread_bytes=waiting)
            self._transport.abort()

    def _waiting(self) -> int:
        """Bytes that the client has not acknowledged, those in the kernel too: it makes room for more only when a third
        of its megabytes is taken, which one that reads slowly would be dropped for."""
        own: int = self._transport.get_write_buffer_size()
        sock = self._transport.get_extra_info("socket")
        unsent = bytearray(4)
        with contextlib.suppress(OSError):
            fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, unsent)
        return own + int.from_bytes(unsent, sys.byteorder)


class Discard:
    """What arrives of a request that was answered: closing at once would reset the connection, and the answer on its
    way to a client that is still sending would be lost."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._bytes = 0
        self._came = False
        self._rounds = 0
        self._timer = loop.call_later(DISCARD_S, self._look)

    def take(self, size: int) -> None:
        """Closes the connection once it is too much."""
        self._came = True
        self._bytes += size
        if self._bytes > MAX_DISCARDED_BYTES:
            self._transport.close()

    def end(self) -> None:
        """All of it is there, or the connection is gone."""
        self._timer.cancel()

    def _look(self) -> None:
        self._rounds += 1
        if self._came and self._rounds < DISCARDS_MOST:
            self._came = False
            self._timer = self._loop.call_later(DISCARD_S, self._look)
        else:
            self._transport.close()

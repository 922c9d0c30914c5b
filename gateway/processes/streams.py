"""Reading and writing descriptors in the event loop, whichever loop it is, and keeping no more than was asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

_CHUNK = 65536


class Head:
    """Keeps the first `limit` bytes and drops the rest (`truncated`)."""

    def __init__(self, limit: int) -> None:
        self.kept = bytearray()
        self.truncated = False
        self._limit = limit

    def feed(self, chunk: bytes) -> None:
        room = self._limit - len(self.kept)
        self.truncated = self.truncated or len(chunk) > room
        self.kept += chunk[:room]


class Tail:
    """Keeps the last `limit` bytes and drops what came before (`truncated`)."""

    def __init__(self, limit: int) -> None:
        self.truncated = False
        self._limit = limit
        self._held = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._held += chunk
        if len(self._held) > self._limit:
            self.truncated = True
            if len(self._held) > 2 * self._limit:  # not at every chunk: it moves all that is kept
                del self._held[: -self._limit]

    @property
    def kept(self) -> bytes:
        return bytes(self._held[-self._limit :])


class Reader:
    """Hands on what can be read from a non-blocking descriptor; `ended` is done at its end, or when told to stop."""

    def __init__(self, descriptor: int, feed: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(descriptor, self._read)

    def stop(self) -> None:
        if not self.ended.done():
            self._loop.remove_reader(self._descriptor)
            self.ended.set_result(None)

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a reset, which is an end like any other
            chunk = b""
        if chunk:
            self._feed(chunk)
        else:
            self.stop()


class Writer:
    """Writes `data` to a non-blocking descriptor; `ended` is done when all is written, the far end is gone, or when
    told to stop."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self._descriptor = descriptor
        self._rest = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._write()
        if not self.ended.done():
            self._loop.add_writer(descriptor, self._write)

    def stop(self) -> None:
        if not self.ended.done():
            self._loop.remove_writer(self._descriptor)
            self.ended.set_result(None)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it: no error, a command need not read its input
            self._rest = self._rest[:0]
        if not self._rest:
            self.stop()

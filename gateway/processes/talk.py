"""A process that is spoken to in messages, over its standard input and output, for as long as it lives."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.processes.control import SWEEP_S, Control
from gateway.processes.launcher import Ends
from gateway.processes.streams import Reader, Writer

SIZE_BYTES = 4
MAX_MESSAGE = 256 * 1024 * 1024


def frame(message: bytes) -> bytes:
    """A message as it goes over a pipe: its length in four bytes, then itself."""
    return len(message).to_bytes(SIZE_BYTES, "big") + message


class Messages:
    """Puts the messages of a pipe together; ValueError for a length that no message has."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._data += chunk
        while len(self._data) >= SIZE_BYTES:
            size = int.from_bytes(self._data[:SIZE_BYTES], "big")
            if size > MAX_MESSAGE:
                raise ValueError(f"a message of {size} bytes")
            if len(self._data) < SIZE_BYTES + size:
                return
            message = bytes(self._data[SIZE_BYTES : SIZE_BYTES + size])
            del self._data[: SIZE_BYTES + size]
            self._heard(message)


class Talk:
    """Owns the descriptors of such a process; `close` kills whatever of it is still there.

    `ended` is done when it has ended, however; `control.report` then says how.
    """

    def __init__(self, ends: Ends, *, heard: Callable[[bytes], None], printed: Callable[[bytes], None]) -> None:
        """`heard` is told of each message; `printed` of what it writes to its standard error."""
        self._ends = ends
        self._open = True
        self._closed: set[int] = set()
        self.control = Control(ends.control)
        self._readers = (Reader(ends.stdout, Messages(heard).feed), Reader(ends.stderr, printed))
        self._waiting: deque[bytes] = deque()
        self._writer: Writer | None = None
        self._finishing = False

    @property
    def ended(self) -> asyncio.Future[None]:
        return self.control.has_told

    def begin(self, spec: dict[str, Any]) -> None:
        """Has the process started."""
        self.control.begin(spec)

    def say(self, message: bytes) -> None:
        """Sends a message, after those before it."""
        self._waiting.append(frame(message))
        self._write()

    async def kill(self) -> bool:
        """SIGKILL to it and to all that it started; whether that is known to be all gone."""
        return await self.control.order(b"k", SWEEP_S)

    def finish(self) -> None:
        """Ends its standard input, once all is written, which asks it to end."""
        self._finishing = True
        self._write()

    def close(self) -> None:
        """Lets go of every descriptor; for the supervisor that means: kill."""
        if not self._open:
            return
        self._open = False
        self.control.stop()
        for reader in self._readers:
            reader.stop()
        self._waiting.clear()
        if self._writer is not None:
            self._writer.stop()
        for descriptor in {*self._ends.numbers()} - self._closed:
            os.close(descriptor)

    def _write(self, *_: object) -> None:
        if not self._open or (self._writer is not None and not self._writer.ended.done()):
            return
        if not self._waiting:
            if self._finishing and not self._closed:
                self._closed.add(self._ends.stdin)
                os.close(self._ends.stdin)
            return
        self._writer = Writer(self._ends.stdin, self._waiting.popleft())
        self._writer.ended.add_done_callback(self._write)

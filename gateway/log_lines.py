"""Where log lines go: a line that cannot be written is dropped and counted, and never stops the work it tells of."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any, TextIO


class LogLines:
    """A structlog logger over a stream: writes never raise, and `tell` has a line for how many were lost before.

    Written without a buffer: what a full disk left in one would be written later, or fail the process at its exit.
    """

    def __init__(self, stream: TextIO, *, tell: Callable[[int], str]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._write = _writer(stream)
        self._dropped = 0
        self._torn = False

    def __call__(self, *args: Any) -> LogLines:
        """Itself, as the factory that structlog asks for a logger."""
        return self

    def msg(self, message: str) -> None:
        """Writes a line, or counts it as dropped."""
        with self._lock:
            lines = ([self._tell(self._dropped)] if self._dropped else []) + [message]
            if self._is_written("".join(f"{line}\n" for line in lines)):
                self._dropped = 0
            else:
                self._dropped += 1

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg

    def _is_written(self, text: str) -> bool:
        data = (f"\n{text}" if self._torn else text).encode(errors="backslashreplace")
        left = len(data)
        try:
            while left:
                left -= self._write(data[-left:])
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._torn = self._torn or left < len(data)
            return False
        self._torn = False
        return True


def _writer(stream: TextIO) -> Callable[[bytes], int]:
    """Writes bytes to where the stream goes, and says how many it took; BlockingIOError if none."""
    try:
        raw = io.FileIO(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError, AttributeError):  # no file, as in a test that captures it

        def write_text(data: bytes) -> int:
            stream.write(data.decode())
            stream.flush()
            return len(data)

        return write_text

    def write(data: bytes) -> int:
        count = raw.write(data)
        if count is None:
            raise BlockingIOError
        return count

    return write

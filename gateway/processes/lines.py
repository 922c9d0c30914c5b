"""Lines of a program's output that are meant for the gateway, taken out of what it prints."""

from __future__ import annotations

from collections.abc import Callable

MARK = b"@gateway "
"""What such a line begins with."""

MAX_LINE = 4096
"""A longer one is output like any other."""

_MARK_AFTER_NEWLINE = b"\n" + MARK


class Lines:
    """Passes output on as it comes, and gives the lines that begin with the mark to `said`, without it."""

    def __init__(self, pass_on: Callable[[bytes], None], said: Callable[[bytes], None]) -> None:
        self._pass_on = pass_on
        self._said = said
        self._held = b""
        self._at_start = True

    def feed(self, chunk: bytes) -> None:
        data, self._held = self._held + chunk, b""
        while data:
            at = self._find(data)
            if at < 0:
                self._hold(data, _may_begin(data, at_start=self._at_start))
                return
            self._emit(data[:at])
            end = data.find(b"\n", at)
            if end < 0 and len(data) - at <= MAX_LINE:
                self._held = data[at:]
                return
            if end < 0 or end - at > MAX_LINE:
                end = len(data) - 1 if end < 0 else end
                self._emit(data[at : end + 1])
            else:
                self._said(data[at + len(MARK) : end])
                self._at_start = True
            data = data[end + 1 :]

    def end(self) -> None:
        """There is no more: a last line may lack its newline."""
        data, self._held = self._held, b""
        if data.startswith(MARK):
            self._said(data[len(MARK) :])
        else:
            self._emit(data)

    def _find(self, data: bytes) -> int:
        if self._at_start and data.startswith(MARK):
            return 0
        found = data.find(_MARK_AFTER_NEWLINE)
        return found + 1 if found >= 0 else -1

    def _hold(self, data: bytes, length: int) -> None:
        """Keeps the last bytes back: the mark may begin there."""
        cut = len(data) - length
        self._emit(data[:cut])
        self._held = data[cut:]

    def _emit(self, data: bytes) -> None:
        if data:
            self._pass_on(data)
            self._at_start = data.endswith(b"\n")


def _may_begin(data: bytes, *, at_start: bool) -> int:
    """How many bytes at the end of `data` could be the beginning of a marked line."""
    if at_start and MARK.startswith(data):
        return len(data)
    return next(
        (
            length
            for length in range(min(len(_MARK_AFTER_NEWLINE) - 1, len(data)), 0, -1)
            if data.endswith(_MARK_AFTER_NEWLINE[:length])
        ),
        0,
    )

"""The socket to a command's supervisor: what to run, how it ended, and when to kill."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from gateway.processes.streams import Head, Reader, Writer
from gateway.processes.supervisor import SIZE_BYTES

SWEEP_S = 5.0
"""How long a supervisor may take to kill everything once it is told to."""

_MAX_REPORT = 4096


class Control:
    """Speaks to one supervisor over `descriptor`, which stays its owner's to close.

    `has_told` is done when it has said how the command ended, or is gone; `ended` when nothing of it is left.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._told = Head(_MAX_REPORT)
        self.has_told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = Reader(descriptor, self._hear)
        self._reader.ended.add_done_callback(self._heard)
        self._writers: list[Writer] = []

    @property
    def ended(self) -> asyncio.Future[None]:
        return self._reader.ended

    @property
    def report(self) -> dict[str, Any]:
        """What the supervisor told first, {exit_code, signal} or {failed, errno}; empty if it was killed itself."""
        report: dict[str, Any] = orjson.loads(self._told.kept.partition(b"\n")[0] or b"{}")
        return report

    def begin(self, spec: dict[str, Any]) -> None:
        """Has it run what `gateway.processes.supervisor` describes."""
        request = orjson.dumps(spec)
        self._writers.append(Writer(self._descriptor, len(request).to_bytes(SIZE_BYTES, "big") + request))

    async def order(self, order: bytes, timeout_s: float) -> bool:
        """`k` or `t`; whether everything is known to be gone."""
        if not self._writers or not self._writers[0].ended.done():
            return False  # it has not even read what to run, and never will: closing is enough
        self._writers.append(Writer(self._descriptor, order))
        await asyncio.wait({self.ended}, timeout=timeout_s)
        return self.ended.done()

    def stop(self) -> None:
        """Listens and writes no more."""
        self._reader.stop()
        for writer in self._writers:
            writer.stop()

    def _hear(self, chunk: bytes) -> None:
        self._told.feed(chunk)
        if b"\n" in self._told.kept:
            self._heard()

    def _heard(self, *_: object) -> None:
        if not self.has_told.done():
            self.has_told.set_result(None)

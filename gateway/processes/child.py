"""One command, from the dispatcher's side: feeds it, reads it, sees it end, and sees to it that nothing stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.processes.launcher import Ends
from gateway.processes.lines import Lines
from gateway.processes.streams import Head, Reader, Tail, Writer
from gateway.processes.supervisor import SIZE_BYTES

DRAIN_S = 1.0
"""How long output is read on after the command has ended, where another process holds its pipes open."""

_SWEEP_S = 5.0
_MAX_REPORT = 4096


@dataclass(frozen=True, slots=True)
class Ending:
    """What the supervisor told first, {exit_code, signal} or {failed, errno}; empty if it was killed itself.

    Of each output the end is kept, as much as was asked for; `truncated` if standard output was longer.
    """

    report: dict[str, Any]
    stdout: bytes
    truncated: bool
    stderr: bytes


class Child:
    """Owns the descriptors of one command; `close` kills whatever of it is still there."""

    def __init__(
        self, ends: Ends, *, max_output: int, max_stderr: int, said: Callable[[bytes], None] | None = None
    ) -> None:
        """`said` is told of each line of standard output that is for the gateway, without its mark."""
        self._ends = ends
        self._open = set(ends.numbers())
        self._told = Head(_MAX_REPORT)
        self._has_told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._out, self._err = Tail(max_output), Tail(max_stderr)
        self._lines = Lines(self._out.feed, said) if said is not None else None
        hear_out = self._out.feed if self._lines is None else self._lines.feed
        self._control = Reader(ends.control, self._hear)
        self._control.ended.add_done_callback(self._heard)
        self._readers = (Reader(ends.stdout, hear_out), Reader(ends.stderr, self._err.feed))
        self._writers: list[Writer] = []

    async def run(self, spec: dict[str, Any], payload: bytes) -> Ending:
        """Runs it to its end, or until the runner cancels at the deadline; then reads what it left in its pipes."""
        request = orjson.dumps(spec)
        self._write(self._ends.control, len(request).to_bytes(SIZE_BYTES, "big") + request)
        stdin = self._write(self._ends.stdin, payload)
        stdin.ended.add_done_callback(lambda _: self._shut(self._ends.stdin))
        await asyncio.wait({self._has_told})
        await asyncio.wait({reader.ended for reader in self._readers}, timeout=DRAIN_S)
        if self._lines is not None:
            self._lines.end()
        report = orjson.loads(self._told.kept.partition(b"\n")[0] or b"{}")
        return Ending(report, self._out.kept, self._out.truncated, self._err.kept)

    async def sweep(self) -> bool:
        """Kills what is left of it; whether that is known to be all gone."""
        return await self._order(b"k", _SWEEP_S)

    async def stop(self, grace_s: float) -> bool:
        """SIGTERM to its group, SIGKILL to everything after `grace_s`; whether it is known to be all gone."""
        return await self._order(b"t", grace_s + _SWEEP_S)

    def close(self) -> None:
        """Lets go of every descriptor; for the supervisor that means: kill."""
        for reader in (self._control, *self._readers):
            reader.stop()
        for writer in self._writers:
            writer.stop()
        for descriptor in tuple(self._open):
            self._shut(descriptor)

    async def _order(self, order: bytes, timeout_s: float) -> bool:
        if not self._writers or not self._writers[0].ended.done():
            return False  # it has not even read what to run, and never will: closing is enough
        self._write(self._ends.control, order)
        await asyncio.wait({self._control.ended}, timeout=timeout_s)
        return self._control.ended.done()

    def _write(self, descriptor: int, data: bytes) -> Writer:
        writer = Writer(descriptor, data)
        self._writers.append(writer)
        return writer

    def _hear(self, chunk: bytes) -> None:
        self._told.feed(chunk)
        if b"\n" in self._told.kept:
            self._heard()

    def _heard(self, *_: object) -> None:
        if not self._has_told.done():
            self._has_told.set_result(None)

    def _shut(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

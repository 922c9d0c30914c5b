"""One command, from the dispatcher's side: feeds it, reads it, sees it end, and sees to it that nothing stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.processes.control import SWEEP_S, Control
from gateway.processes.launcher import Ends
from gateway.processes.lines import Lines
from gateway.processes.streams import Reader, Tail, Writer

DRAIN_S = 1.0
"""How long output is read on after the command has ended, where another process holds its pipes open."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended (`Control.report`), and the end of each output, as much as was asked for.

    `truncated` if standard output was longer.
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
        self._control = Control(ends.control)
        self._out, self._err = Tail(max_output), Tail(max_stderr)
        self._lines = Lines(self._out.feed, said) if said is not None else None
        hear_out = self._out.feed if self._lines is None else self._lines.feed
        self._readers = (Reader(ends.stdout, hear_out), Reader(ends.stderr, self._err.feed))
        self._stdin: Writer | None = None

    async def run(self, spec: dict[str, Any], payload: bytes) -> Ending:
        """Runs it to its end, or until the runner cancels at the deadline; then reads what it left in its pipes."""
        self._control.begin(spec)
        self._stdin = Writer(self._ends.stdin, payload)
        self._stdin.ended.add_done_callback(lambda _: self._shut(self._ends.stdin))
        await asyncio.wait({self._control.has_told})
        await asyncio.wait({reader.ended for reader in self._readers}, timeout=DRAIN_S)
        if self._lines is not None:
            self._lines.end()
        return Ending(self._control.report, self._out.kept, self._out.truncated, self._err.kept)

    async def sweep(self) -> bool:
        """Kills what is left of it; whether that is known to be all gone."""
        return await self._control.order(b"k", SWEEP_S)

    async def stop(self, grace_s: float) -> bool:
        """SIGTERM to its group, SIGKILL to everything after `grace_s`; whether it is known to be all gone."""
        return await self._control.order(b"t", grace_s + SWEEP_S)

    def close(self) -> None:
        """Lets go of every descriptor; for the supervisor that means: kill."""
        self._control.stop()
        for reader in self._readers:
            reader.stop()
        if self._stdin is not None:
            self._stdin.stop()
        for descriptor in tuple(self._open):
            self._shut(descriptor)

    def _shut(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

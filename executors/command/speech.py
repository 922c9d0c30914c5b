"""What a command says to the gateway, in lines of its standard output that begin with `@gateway `."""

from __future__ import annotations

from typing import Any

import orjson

from gateway import Attempt, Pulse

from .config import CommandConfig


class Speech:
    """Heeds `heartbeat` and `progress <JSON or text>`; anything else is logged, once an attempt."""

    def __init__(self, attempt: Attempt[CommandConfig], pulse: Pulse) -> None:
        self._attempt = attempt
        self._pulse = pulse
        self._complained = False

    def hear(self, line: bytes) -> None:
        """One line, without its mark and newline."""
        word, _, rest = line.strip().partition(b" ")
        if word == b"heartbeat":
            self._pulse.beat()
        elif word == b"progress":
            self._pulse.beat()
            self._progress(rest.strip())
        else:
            self._complain("a command says heartbeat or progress")

    def _progress(self, text: bytes) -> None:
        try:
            value: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = text.decode(errors="replace")
        try:
            self._attempt.progress(value)
        except (TypeError, ValueError) as exc:
            self._complain(str(exc))

    def _complain(self, why: str) -> None:
        if not self._complained:
            self._complained = True
            self._attempt.log.warning("command.not_understood", job_id=self._attempt.job.job_id, detail=why)

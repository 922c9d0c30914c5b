"""Log lines that cannot be written: dropped, counted, and told of once they can be again."""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from gateway.log_lines import LogLines


class Pipe:
    """A pipe that takes no more than it holds, as a log does whose disk is full."""

    def __init__(self) -> None:
        self.end, self._fd = os.pipe()
        os.set_blocking(self.end, False)
        os.set_blocking(self._fd, False)
        self.size = fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, 4096)
        self.stream: TextIO = os.fdopen(self._fd, "w")

    def fill(self, room: int = 0) -> None:
        os.write(self._fd, b"x" * (self.size - room - 1) + b"\n")

    def read(self) -> str:
        return os.read(self.end, 1 << 20).decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_lines_are_dropped_while_they_cannot_be_written_and_told_of_once(pipe: Pipe) -> None:
    lines = LogLines(pipe.stream, tell="{} lost".format)
    lines.info("first")
    assert pipe.read() == "first\n"
    pipe.fill()
    for _ in range(3):
        lines.warning("never")
    pipe.read()
    lines.info("again")
    lines.info("and on")
    assert pipe.read() == "3 lost\nagain\nand on\n"


def test_line_that_was_torn_stays_a_line_of_its_own(pipe: Pipe) -> None:
    lines = LogLines(pipe.stream, tell="{} lost".format)
    lines.info("y" * (pipe.size + 8))
    assert pipe.read() == "y" * pipe.size
    lines.info("again")
    assert pipe.read() == "\n1 lost\nagain\n"


def test_line_to_a_reader_that_is_gone_raises_nothing() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        lines = LogLines(stream, tell=str)
        os.close(reading)
        lines.error("unheard")
    lines.error("closed")


def test_text_that_has_no_file_is_written_as_well() -> None:
    stream = io.StringIO()
    LogLines(stream, tell=str).info("caf\N{LATIN SMALL LETTER E WITH ACUTE} \ud83d")
    assert stream.getvalue() == "café \\ud83d\n"


def test_configured_log_says_how_many_were_dropped_as_any_other_line() -> None:
    program = (
        "import os, structlog\n"
        "from gateway.logs import configure_logging; from gateway.settings import GatewaySettings\n"
        "configure_logging(GatewaySettings())\n"
        "told, full = os.dup(2), os.open('/dev/full', os.O_WRONLY)\n"
        "os.dup2(full, 2); structlog.get_logger().info('lost')\n"
        "os.dup2(told, 2); structlog.get_logger().info('back')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    dropped, back = done.stderr.splitlines()
    assert '"log lines were dropped: they could not be written"' in dropped
    assert '"lines": 1' in dropped
    assert '"level": "warning"' in dropped
    assert '"back"' in back

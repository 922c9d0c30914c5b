"""Standard streams that are closed, full, or left by their reader: one line at most, and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell

COMMANDS = (["version"], ["version", "--json"], ["config", "check"], ["config", "show"], ["--help"], ["plugins"])


def run(shell: Shell, line: str) -> subprocess.CompletedProcess[bytes]:
    """A line of a POSIX shell, `gateway` being ours; its output goes through a buffer, as it does by default."""
    environ = {name: text for name, text in shell.environ.items() if name != "PYTHONUNBUFFERED"}
    line = f'gateway() {{ "{sys.executable}" -P -m gateway "$@"; }}; {line}'
    return subprocess.run(["/bin/sh", "-c", line], cwd=shell.folder, env=environ, capture_output=True, timeout=60)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_works_where_its_streams_are_closed(bare: Shell, command: list[str]) -> None:
    done = run(bare, f"gateway {' '.join(command)} <&- >&- 2>&-; echo $?")
    assert (done.stdout, done.stderr) == (b"0\n", b"")
    assert [*bare.folder.iterdir()] == []
    whole, alone = run(bare, f"gateway {' '.join(command)}"), run(bare, f"gateway {' '.join(command)} 2>&-")
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, whole.stdout, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_fails_in_one_line_where_its_output_is_full(bare: Shell, command: list[str]) -> None:
    done = run(bare, f"gateway {' '.join(command)} >/dev/full")
    told = b"gateway: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_ends_without_a_word_where_its_reader_has_gone(bare: Shell, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environ = {name: text for name, text in bare.environ.items() if name != "PYTHONUNBUFFERED"}
    line = [sys.executable, "-P", "-m", "gateway", *command]
    done = subprocess.run(line, cwd=bare.folder, env=environ, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_input_that_is_closed_is_an_empty_one(bare: Shell) -> None:
    done = run(bare, "gateway jobs submit hello - --url http://127.0.0.1:1 <&-")
    assert (done.returncode, b"not JSON" in done.stderr) == (2, True)

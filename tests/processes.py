"""Which processes a command has left behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def processes_of(folder: Path) -> list[str]:
    """The command lines of living processes that were started with this TMPDIR, or name it (a Valkey writes its
    title over its environment), or work in it."""
    wanted, found = os.fsencode(folder), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                command = (entry / "cmdline").read_bytes()
                traces = (entry / "environ").read_bytes(), command, os.fsencode((entry / "cwd").readlink())
                if any(wanted in trace for trace in traces):
                    found.append(command.replace(b"\0", b" ").decode())
    return found

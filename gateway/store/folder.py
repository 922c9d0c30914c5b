"""The data folder of the embedded server: private, with one owner and one server at a time, and known file names.

Two locks tell who is there, because a pid alone can lie. `owner.lock` is held by the process that started the
server, for as long as it lives. `server.lock` is inherited by the server: while that lock is held, a server (or its
fork that rewrites the append-only file) works in this folder, even if its owner was killed with -9.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from gateway.errors import ConfigError

MAX_SOCKET_BYTES = 107 if sys.platform == "linux" else 103
"""`sockaddr_un.sun_path` without its final NUL."""

_MENDS = {
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "move away what is there"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space on its disk"),
}


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where one embedded server keeps its data; `path` is absolute."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "valkey.log"

    @property
    def pid_file(self) -> Path:
        """Written and removed by the server itself, so no crash of its owner can leave it unwritten."""
        return self.path / "valkey.pid"

    def prepare(self) -> None:
        """Makes the folder, for this user only and ignored by git."""
        with self._usable():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.path.stat().st_uid == os.geteuid():
                self.path.chmod(0o700)
            (self.path / ".gitignore").write_text("*\n")

    def lock_owner(self, now_s: float) -> TextIO:
        """The owner's lock, held until the file is closed; ConfigError names the process that has it."""
        with self._usable():
            handle = os.fdopen(os.open(self.path / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                handle.truncate(0)
                handle.write(f"{os.getpid()} since {datetime.fromtimestamp(now_s, UTC):%Y-%m-%dT%H:%M:%SZ}\n")
                handle.flush()
            except BlockingIOError as exc:
                holder = handle.read().strip()
                handle.close()
                raise self._held(holder) from exc
            except BaseException:
                handle.close()
                raise
        return handle

    def lock_server(self) -> int | None:
        """A descriptor that holds the server's lock and is to be inherited by it; None while a server has it."""
        with self._usable():
            fd = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            except BaseException:
                os.close(fd)
                raise
        return fd

    def recorded_pid(self) -> int | None:
        """The pid that the last server wrote; whether it is still that server is for the caller to check."""
        text = _read(self.pid_file)
        return int(text) if text.isascii() and text.isdigit() and int(text) > 1 else None

    def recorded_socket(self) -> Path:
        """Where the last server's socket is or was."""
        recorded = _read(self.path / "socket")
        return Path(recorded) if recorded.startswith("/") else self.path / "valkey.sock"

    def choose_socket(self, root: Path) -> Path:
        """A socket path that the system can bind: in the folder, else in a private one below `root`, recorded."""
        record, here = self.path / "socket", self.path / "valkey.sock"
        with self._usable():
            if len(os.fsencode(here)) <= MAX_SOCKET_BYTES:
                record.unlink(missing_ok=True)
                return here
            recorded = self.recorded_socket()
            if recorded != here and _is_private(recorded.parent):
                return recorded
            socket = Path(tempfile.mkdtemp(prefix="gateway-", dir=root)) / "valkey.sock"
            record.write_text(f"{socket}\n")
        return socket

    def forget_socket(self) -> None:
        """Removes what a stopped server's socket leaves behind."""
        socket = self.recorded_socket()
        with contextlib.suppress(OSError):
            socket.unlink(missing_ok=True)
            if socket.parent != self.path:
                socket.parent.rmdir()
                (self.path / "socket").unlink(missing_ok=True)

    def rotate_log(self) -> None:
        """Sets the last run's log aside, so that the log tells of one run and two are kept."""
        with self._usable():
            if self.log.exists():
                self.log.replace(self.path / "valkey.log.1")
            self.log.touch(mode=0o600)

    def log_tail(self, lines: int = 6) -> list[str]:
        """The last lines of this run's log."""
        with contextlib.suppress(OSError), self.log.open("rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - 65536))
            return handle.read().decode(errors="replace").splitlines()[-lines:]
        return []

    def _held(self, holder: str) -> ConfigError:
        process = f"process {holder}" if holder else "another process"
        mend = f"stop it (kill {holder.split()[0]})" if holder else "stop that process"
        return ConfigError(str(self.path), f"in use by {process}; {mend}, or give this one another with --data-dir")

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            where = f" ({exc.filename})" if exc.filename else ""
            mend = _MENDS.get(exc.errno or 0, "make it writable")
            raise ConfigError(
                str(self.path),
                f"cannot be used as the data folder: {exc.strerror}{where}; {mend}, or name another one",
            ) from exc


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_private(directory: Path) -> bool:
    try:
        facts = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077

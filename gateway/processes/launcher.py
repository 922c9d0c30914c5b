"""The dispatcher's hold on the process that starts its commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = Path(__file__).with_name("supervisor.py")
_PYTHON = (sys.executable, "-I", "-S", "-X", "utf8")
_EXIT_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Ends:
    """The descriptors of one command: a socket to its supervisor, and pipes to its standard streams."""

    control: int
    stdin: int
    stdout: int
    stderr: int

    def numbers(self) -> list[int]:
        return [self.control, self.stdin, self.stdout, self.stderr]


class Launcher:
    """Starts a small process when it is first needed, again should it die, and asks it for supervised commands."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in environ}
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def spawn(self) -> Ends:
        """Our ends (non-blocking) of a new supervisor's descriptors; raises OSError where the system is out of them."""
        ours, theirs = _open_ends()
        try:
            self._hand_over(theirs.numbers())
        except BaseException:
            _close(ours.numbers())
            raise
        finally:
            _close(theirs.numbers())
        return ours

    async def aclose(self) -> None:
        """Ends the process, and with it whatever commands are left."""
        process, self._process = self._process, None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if process is not None:
            await asyncio.to_thread(_end, process)

    def _hand_over(self, descriptors: list[int]) -> None:
        channel = self._channel or self._start()
        try:
            socket.send_fds(channel, [b"+"], descriptors)
        except (BrokenPipeError, ConnectionResetError):  # someone killed it
            socket.send_fds(self._start(), [b"+"], descriptors)

    def _start(self) -> socket.socket:
        if self._process is not None:
            _end(self._process)
        if self._channel is not None:
            self._channel.close()
        self._channel, far = socket.socketpair()
        self._channel.setblocking(False)
        with far:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [*_PYTHON, str(_SCRIPT), str(far.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=self._environ,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        return self._channel


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_WAIT_S)
        return
    process.kill()
    process.wait()


def _open_ends() -> tuple[Ends, Ends]:
    opened: list[int] = []
    try:
        for make in (_socket_pair, os.pipe, os.pipe, os.pipe):
            opened += make()
    except OSError:
        _close(opened)
        raise
    control, far_control, far_stdin, stdin, stdout, far_stdout, stderr, far_stderr = opened
    ours = Ends(control, stdin, stdout, stderr)
    for descriptor in ours.numbers():
        os.set_blocking(descriptor, False)
    return ours, Ends(far_control, far_stdin, far_stdout, far_stderr)


def _socket_pair() -> tuple[int, int]:
    near, far = socket.socketpair()
    return near.detach(), far.detach()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)

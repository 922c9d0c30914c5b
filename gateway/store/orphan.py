"""A server that outlived the process that started it: who it is, and a handle on it that no pid reuse can fool."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateway.errors import StoreUnavailable

PROGRAM = "valkey-server"
KILL_WAIT_S = 5.0


class ServerProcess(Protocol):
    """What a started server and a taken-over one have in common: the part of `Popen` that is used here."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""

    def wait(self, timeout: float) -> int:
        """Waits for the end; raises `subprocess.TimeoutExpired`."""

    def send_signal(self, sig: int) -> None:
        """Sends a signal, if it still runs."""


class Orphan:
    """A running server that is not our child; its exit code cannot be known and reads as 0."""

    def __init__(self, pid: int, pidfd: int | None) -> None:
        self.pid = pid
        self._pidfd = pidfd

    def poll(self) -> int | None:
        return 0 if self._ended(0) else None

    def wait(self, timeout: float) -> int:
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired(PROGRAM, timeout)
        return 0

    def send_signal(self, sig: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "linux" and self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, sig)
            else:
                os.kill(self.pid, sig)

    def close(self) -> None:
        """Lets go of the process without ending it."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _ended(self, timeout_s: float) -> bool:
        if self._pidfd is None:
            return _pid_ended(self.pid, timeout_s)
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))


def _pid_ended(pid: int, timeout_s: float) -> bool:
    until = time.monotonic() + timeout_s
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)


def find_orphan(pid: int | None, folder: Path) -> Orphan | None:
    """The server process `pid`, if it is one and works in `folder`; None if the pid is by now someone else's.

    A server's working directory is its data folder, so program and directory together identify it; the pidfd taken
    before the check pins the process that was checked. Without /proc nothing can be told by the pid alone.
    """
    if pid is None or sys.platform != "linux":
        return None
    try:
        orphan = Orphan(pid, os.pidfd_open(pid))
    except OSError:
        return None
    try:
        program = Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)")
        if program == PROGRAM and Path(f"/proc/{pid}/cwd").samefile(folder):
            return orphan
    except OSError:
        pass
    orphan.close()
    return None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of itself."""

    pid: int
    loading: bool


def ask(socket: Path, folder: Path, timeout_s: float) -> Answer | None:
    """What the server at `socket` answers, if it is one that keeps its data in `folder`; None otherwise."""
    try:
        with redis.Redis(
            unix_socket_path=str(socket),
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        ) as client:
            directory = client.config_get("dir")["dir"]
            facts = client.info("server", "persistence")
        if Path(directory).samefile(folder):
            return Answer(int(facts["process_id"]), bool(facts["loading"]))
    except (redis.RedisError, OSError, KeyError, ValueError):
        pass
    return None


def adopt(answer: Answer, folder: Path) -> Orphan | None:
    """A handle on the server that gave this answer; None if its pid is not the one of that server here."""
    if sys.platform == "linux":
        return find_orphan(answer.pid, folder)
    return Orphan(answer.pid, None)


def end(process: ServerProcess, timeout_s: float) -> bool:
    """Ends a server: TERM, then KILL after `timeout_s`; whether it went by itself; StoreUnavailable if it stays."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
        return True
    process.send_signal(signal.SIGKILL)
    try:
        process.wait(KILL_WAIT_S)
    except subprocess.TimeoutExpired as exc:
        raise StoreUnavailable(f"{PROGRAM} {process.pid} does not end, even by SIGKILL; is its disk stuck?") from exc
    return False

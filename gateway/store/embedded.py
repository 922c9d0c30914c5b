"""The embedded Valkey: a server of our own on a private unix socket, its data on disk, for running without Redis."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

import structlog

from gateway.errors import ConfigError, StoreUnavailable
from gateway.store.folder import DataFolder
from gateway.store.launch import exit_message, launch, silent_message
from gateway.store.orphan import Orphan, ServerProcess, adopt, ask, end, find_orphan

log = structlog.get_logger(__name__)

DATA_DIR = Path(".gateway")
SOCKET_ROOT = Path("/tmp")  # noqa: S108  a private folder is made below it
ASK_TIMEOUT_S = 1.0
ORPHAN_GRACE_S = 2.0
"""How long a server that outlived its owner may keep silent before it is ended, and take to end by itself."""
MAX_REVIVE_DELAY_S = 10.0


def find(data_dir: Path = DATA_DIR, *, timeout_s: float = ASK_TIMEOUT_S) -> str | None:
    """The URL of the embedded server that runs in this folder (for commands of the same folder), or None."""
    folder = DataFolder(data_dir.absolute())
    socket = folder.recorded_socket()
    return _url(socket) if ask(socket, folder.path, timeout_s) else None


class EmbeddedValkey:
    """Owns the server of one data folder: started or taken over by `start`, ended by `stop`.

    A write is in the operating system's hands before it is answered and on disk within a second, so a kill -9 of
    owner or server loses nothing, and a power cut at most a second. `clock` is monotonic, `now` Unix seconds.

    A server that is `temporary` does not outlive its owner, not even a killed one (on Linux): it ends with the thread
    that has started it.
    """

    def __init__(
        self,
        data_dir: Path = DATA_DIR,
        *,
        temporary: bool = False,
        socket_root: Path = SOCKET_ROOT,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = DataFolder(data_dir.absolute())
        self._temporary = temporary
        self._socket_root = socket_root
        self._clock = clock
        self._now = now
        self._owner: TextIO | None = None
        self._process: ServerProcess | None = None
        self._guard = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The server's process id, None while there is none."""
        return self._process.pid if self._process else None

    def start(self, timeout_s: float = 10.0) -> str:
        """Starts the server, or takes over the one a killed owner left behind; its URL as redis-py reads it.

        While the server answers that it is loading its data, `timeout_s` does not run. ConfigError: the folder is
        held by another process, or cannot be used; StoreUnavailable: the server ended, or kept silent.
        """
        with self._guard:
            self._folder.prepare()
            owner = self._folder.lock_owner(self._now())
            try:
                url = self._bring_up(timeout_s)
            except BaseException:
                owner.close()
                raise
            self._owner = owner
            return url

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ends the server, its data flushed to disk; KILL after `timeout_s`. Nothing happens if it is not started."""
        with self._guard:
            if self._owner is None:
                return
            try:
                if self._process is not None and not end(self._process, timeout_s):
                    log.warning("embedded valkey did not stop in time and was killed", pid=self._process.pid)
                self._folder.forget_socket()
            finally:
                self._let_go()
                self._owner.close()
                self._owner = None

    async def watch(self, *, every_s: float = 0.5, timeout_s: float = 10.0) -> None:
        """Starts the server again whenever it dies, under the same URL, until cancelled; cancel it before `stop`."""
        failures = 0
        while True:
            await asyncio.sleep(min(MAX_REVIVE_DELAY_S, every_s * 2**failures))
            try:
                await asyncio.to_thread(self._revive, timeout_s)
                failures = 0
            except (ConfigError, StoreUnavailable) as exc:
                failures = min(failures + 1, 8)
                log.error("embedded valkey cannot be started again", error=str(exc))

    def _revive(self, timeout_s: float) -> None:
        with self._guard:
            if self._owner is None or (self._process is not None and self._process.poll() is None):
                return
            if self._process is not None:
                log.error("embedded valkey died; starting it again", pid=self.pid, exit_code=self._process.poll())
            self._let_go()
            self._bring_up(timeout_s)

    def _bring_up(self, timeout_s: float) -> str:
        lock_fd = self._take_over_or_lock(timeout_s)
        if lock_fd is not None:
            try:
                socket = self._folder.choose_socket(self._socket_root)
                self._process = launch(self._folder, socket, lock_fd=lock_fd, temporary=self._temporary)
            finally:
                os.close(lock_fd)
        try:
            return self._await_ready(timeout_s)
        except BaseException:
            if self._process is not None and not isinstance(self._process, Orphan):
                end(self._process, ORPHAN_GRACE_S)
            self._let_go()
            raise

    def _take_over_or_lock(self, timeout_s: float) -> int | None:
        """The lock for a new server, once no other is alive in the folder; None if a living one was taken over."""
        folder, began = self._folder, self._clock()
        while True:
            answer = ask(folder.recorded_socket(), folder.path, ASK_TIMEOUT_S)
            if answer is not None and (orphan := adopt(answer, folder.path)) is not None:
                log.info("embedded valkey taken over from a process that was killed", pid=orphan.pid)
                self._process = orphan
                return None
            if (silent := find_orphan(folder.recorded_pid(), folder.path)) is not None:
                self._end_silent(silent, patient=self._clock() - began < ORPHAN_GRACE_S)
            elif (lock_fd := folder.lock_server()) is not None:
                return lock_fd
            elif self._clock() - began >= timeout_s:
                raise StoreUnavailable(silent_message(folder, folder.recorded_pid()))
            time.sleep(0.05)

    def _end_silent(self, orphan: Orphan, *, patient: bool) -> None:
        try:
            if not patient:
                log.warning("embedded valkey left behind by a killed process keeps silent; ending it", pid=orphan.pid)
                end(orphan, ORPHAN_GRACE_S)
        finally:
            orphan.close()

    def _await_ready(self, timeout_s: float) -> str:
        assert self._process is not None
        socket, pause_s, loading = self._folder.recorded_socket(), 0.002, False
        until = self._clock() + timeout_s
        while True:
            code = self._process.poll()
            answer = ask(socket, self._folder.path, ASK_TIMEOUT_S) if code is None else None
            if code is not None:
                raise StoreUnavailable(exit_message(self._folder, code))
            if answer is not None and not answer.loading:
                return _url(socket)
            if answer is not None:
                until = self._clock() + timeout_s
                if not loading:
                    log.info("embedded valkey is loading its data", folder=str(self._folder.path))
                loading = True
            elif self._clock() >= until:
                raise StoreUnavailable(silent_message(self._folder, self.pid))
            time.sleep(pause_s)
            pause_s = min(0.05, pause_s * 1.5)

    def _let_go(self) -> None:
        if isinstance(self._process, Orphan):
            self._process.close()
        self._process = None


def _url(socket: Path) -> str:
    return f"unix://{quote(str(socket))}?db=0"

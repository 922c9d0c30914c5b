"""Worker processes that share a port: replaced when they end, and ended at once while they still start."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from socket import socket

import structlog
import uvicorn
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from gateway.supervisor import stop_signals

WORKER_SILENT_S = 60
"""A worker that answers its manager for so long no more is replaced. It answers once its program is loaded, which takes
a busy machine a while: uvicorn's own 5 s killed some at their start, and their heirs again."""

LOOK_S = 0.1
"""How often the manager, while it waits for an answer, looks whether it was told to stop."""

log = structlog.get_logger(__name__)


class Workers(Multiprocess):
    """Worker processes, each replaced when it ends, which is told; HUP stops them all unless it is ignored."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket]) -> None:
        heeded = stop_signals()
        super().__init__(config, sockets)
        if signal.SIGHUP not in heeded:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def handle_hup(self) -> None:
        self.should_exit.set()

    def keep_subprocess_alive(self) -> None:
        if not all(self._answers(worker) for worker in self.processes):
            return
        before = list(self.processes)
        super().keep_subprocess_alive()
        for ended, heir in zip(before, self.processes, strict=True):
            if heir is not ended:
                log.warning(
                    "worker ended; another takes its place", pid=ended.pid, exit_code=ended.exitcode, by=heir.pid
                )

    def _answers(self, worker: Process) -> bool:
        """Waits until it has answered, or has ended, which it is made to if it is silent; False once it is to stop."""
        until_s = time.monotonic() + WORKER_SILENT_S
        with contextlib.suppress(OSError, EOFError):
            worker.parent_conn.send(b"ping")
            while not worker.parent_conn.poll(LOOK_S):
                if self.signal_queue or self.should_exit.is_set():
                    return False
                if not worker.process.is_alive():
                    return True
                if time.monotonic() > until_s:
                    worker.process.kill()
                    worker.join()
                    return True
            worker.parent_conn.recv()
        return True


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """While a process does not serve yet, what asks it to stop ends it at once."""
    before = {sig: signal.signal(sig, signal.SIG_DFL) for sig in stop_signals()}
    try:
        yield
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)

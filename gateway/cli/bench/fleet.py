"""Dispatcher processes of their own, as `gateway dispatch` starts them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.store import Store
from gateway.supervisor import SUPERVISOR_PID

_START_S = 30.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running dispatcher processes."""

    processes: Sequence[subprocess.Popen[bytes]]

    def resident_bytes(self) -> list[int]:
        """How much memory each holds by now."""
        return [_resident_bytes(each.pid) for each in self.processes]


def python_target(task: str, more: str = "") -> str:
    """The table of a target that calls a task of measurements."""
    return f'executor = "python"\ncallable = "gateway.cli.bench.tasks:{task}"\n{more}'


@asynccontextmanager
async def fleet(
    url: str, store: Store, *, targets: dict[str, str], processes: int = 1, slots: int = 100
) -> AsyncIterator[Fleet]:
    """So many processes, once each has said that it is there; `targets` are their tables (`python_target`) by name."""
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        configuration = _configuration(store, targets, slots)
        running = [_start(url, Path(folder), configuration) for _ in range(processes)]
        try:
            await _present(store, processes)
            yield Fleet(running)
        finally:
            for each in running:
                each.terminate()
            for each in running:
                await asyncio.to_thread(each.wait, _START_S)


def _configuration(store: Store, targets: dict[str, str], slots: int) -> str:
    head = f'[gateway]\nnamespace = "{store.keyspaces[0].namespace}"\ndispatcher_port = 0\nslots = {slots}\n'
    tables = (f"[targets.{name}]\n{table}\n" for name, table in targets.items())
    return head + 'log_level = "error"\n' + "".join(tables)


def _start(url: str, folder: Path, configuration: str) -> subprocess.Popen[bytes]:
    (folder / "gateway.toml").write_text(configuration)
    command = [sys.executable, "-m", "gateway", "dispatch"]
    environment = {"GATEWAY_REDIS_URL": url, SUPERVISOR_PID: str(os.getpid())}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 (this program)


async def _present(store: Store, processes: int) -> None:
    async with asyncio.timeout(_START_S):
        while (await store.inspect()).dispatchers < processes:  # noqa: ASYNC110 (nothing tells of it but Redis)
            await asyncio.sleep(0.02)


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no memory to show")

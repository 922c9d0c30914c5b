"""One round of one peer: what it takes in, what it drains, how soon a job starts; every run recorded."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.bench.report import percentile
from tests.peers.install import Installed
from tests.peers.peer import OWN
from tests.servers import Server

PROGRAMS = Path(__file__).parent / "programs"
RECORD = struct.Struct("<qd")
PACE, PACED = 100, 200
_STEP_S = 120.0


@dataclass(frozen=True, slots=True)
class Round:
    """Jobs per second, milliseconds, bytes of memory; None where the peer has no such call."""

    drain: float
    bulk: float | None
    single: float
    together: float | None
    end_to_end: float
    p50_ms: float
    p99_ms: float
    resident: float


def measure(it: Installed, server: Server, folder: Path) -> Round:
    """On an empty server; raises RuntimeError where a job ran twice or never."""
    record = folder / "record"
    stage = Stage(it, server, folder, record)
    bulk = stage.submit("bulk", it.peer.jobs) if "bulk(" in (PROGRAMS / it.peer.program).read_text().lower() else None
    stage.empty()
    single = stage.submit("single", max(500, it.peer.jobs // 10))
    stage.empty()
    together = stage.submit("together", it.peer.jobs) if stage.has_together else None
    stage.empty()
    rates = {"bulk": bulk, "together": together, "single": single}
    fastest = max(rates, key=lambda how: rates[how] or 0.0)
    stage.submit(fastest, it.peer.jobs)
    record.write_bytes(b"")
    with stage.worker() as worker:
        starts = stage.started(it.peer.jobs)
        resident = _resident(worker.pid)
        drain = (len(starts) - 1) / (max(starts.values()) - min(starts.values()))
        record.write_bytes(b"")
        sent = stage.pace()
        starts = stage.started(PACED)
        late = [(starts[number] - at) * 1000 for number, at in enumerate(sent)][PACED // 10 :]
        record.write_bytes(b"")
        began = stage.begin(fastest, it.peer.jobs)
        end_to_end = it.peer.jobs / (max(stage.started(it.peer.jobs).values()) - began)
    p50_ms, p99_ms = percentile(late, 0.5), percentile(late, 0.99)
    return Round(drain, bulk, single, together, end_to_end, p50_ms, p99_ms, resident)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one peer's programs run."""

    it: Installed
    server: Server
    folder: Path
    record: Path

    @property
    def has_together(self) -> bool:
        """Whether one process of its client submits several at once."""
        return "together=False" not in (PROGRAMS / self.it.peer.program).read_text()

    def submit(self, how: str, count: int) -> float:
        """Jobs per second that its client submits."""
        return float(json.loads(self._client(how, str(count)))[1])

    def begin(self, how: str, count: int) -> float:
        """Has its client submit, and tells when that began."""
        return float(json.loads(self._client(how, str(count)))[0])

    def pace(self) -> list[float]:
        """Submits one by one at an even pace: when each was sent."""
        return [float(at) for at in json.loads(self._client("pace", str(PACED), str(PACE)))]

    def empty(self) -> None:
        with self.server.client() as client:
            client.flushall()

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """Its worker, in a process group of its own, which is ended with it."""
        command = self.it.command(*self.it.peer.worker)
        (self.folder / "gateway.toml").write_text(_CONFIGURATION)
        log = (self.folder / "worker.log").open("wb")
        cwd = self.folder if self.it.peer.name == OWN else PROGRAMS
        with (
            log,
            subprocess.Popen(
                command, cwd=cwd, env=self._environment(), stdout=log, stderr=log, start_new_session=True
            ) as process,
        ):
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)

    def started(self, count: int) -> dict[int, float]:
        """When each job started, once all have; each exactly once."""
        until = time.monotonic() + _STEP_S
        while self.record.stat().st_size < count * RECORD.size:
            if time.monotonic() > until:
                tail = (self.folder / "worker.log").read_text(errors="replace")[-1000:]
                raise RuntimeError(f"{self.it.peer.name}: not all of {count} jobs ran\n{tail}")
            time.sleep(0.02)
        runs = list(RECORD.iter_unpack(self.record.read_bytes()))
        counted = Counter(number for number, _ in runs)
        twice = sorted(number for number, times in counted.items() if times > 1)
        if len(counted) < count or twice:
            missing = sorted(set(range(count)) - counted.keys())
            raise RuntimeError(f"{self.it.peer.name}: ran twice: {twice[:5]}; never: {missing[:5]}; of {count} jobs")
        return dict(runs)

    def _client(self, *words: str) -> str:
        command = [str(self.it.interpreter), self.it.peer.program]
        done = subprocess.run(
            [*command, *words], cwd=PROGRAMS, env=self._environment(), capture_output=True, text=True, timeout=_STEP_S
        )
        if done.returncode:
            raise RuntimeError(f"{self.it.peer.name} {' '.join(words)}: {done.stderr[-1000:]}")
        return done.stdout.strip().splitlines()[-1]

    def _environment(self) -> dict[str, str]:
        url = self.server.url.removesuffix("/0")
        return {
            "PATH": f"{self.it.interpreter.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(PROGRAMS),
            "PEER_REDIS_URL": url,
            "PEER_RECORD": str(self.record),
            "PEER_FOLDER": str(self.it.folder),
            "RQ_REDIS_URL": url,
            "GATEWAY_REDIS_URL": url,
            **dict(self.it.peer.environment),
        }


_CONFIGURATION = """\
[gateway]
slots = 400
dispatcher_port = 0
[targets.noop]
executor = "python"
callable = "gateway_peer:noop"
"""


def _resident(group: int) -> float:
    """Bytes that the processes of a group hold."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group:
            total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return float(total)

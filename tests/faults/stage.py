"""What a fault is injected into: a gateway, dispatchers, their Redis, a receiver of callbacks, and the history."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.installation import Installation, Process
from tests.egress.receiver import Peer, Receiver, answer
from tests.faults.background import Background
from tests.faults.history import History, Reader, Recorder
from tests.faults.hostile import BEHAVIOURS
from tests.faults.load import Load, Make, Readers, mixed
from tests.faults.places import Place
from tests.faults.toxics import ToxicProxy
from tests.waiting import until_sync

TASKS = Path(__file__).with_name("tasks.py")
CALLBACK_SECRET = "whsec_" + "QUJD" * 8
_JOB = re.compile(rb'"job_id": ?"([0-9a-f-]{36})"')

CONFIG = """
[egress]
allow = ["127.0.0.1/32"]

[targets.work]
executor = "python"
callable = "tasks:work"
retry = { policy = "fixed", base = "100ms", cap = "1s", max_attempts = 3 }

[targets.keyed]
executor = "python"
callable = "tasks:work"
retry = { policy = "fixed", base = "100ms", cap = "1s", max_attempts = 3 }
limit = { concurrency = 6, per_key = { concurrency = 1 } }

[targets.ordered]
executor = "python"
callable = "tasks:work"
ordered = true
retry = { policy = "fixed", base = "100ms", cap = "1s", max_attempts = 3 }

[targets.misbehave]
executor = "python"
callable = "tasks:misbehave"
retry = { policy = "fixed", base = "50ms", cap = "1s", max_attempts = 2 }

[targets.end_process]
executor = "python"
callable = "tasks:end_process"
"""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a row's stage is like."""

    slots: int = 6
    lease: str = "1s"
    dispatchers: int = 2
    proxied: bool = False
    """The one server is reached through the bad network; a group is not, since its members name each other."""

    server: Sequence[str] = ("--appendonly", "yes")
    """Options of each Redis server."""

    disk_mb: int = 0
    """The server's folder is a disk of its own, of that size; needs root."""

    gateway: dict[str, Any] = field(default_factory=dict)
    config: str = ""
    serve: bool = True


class Stage:
    """Made by `on_stage`."""

    def __init__(self, place: Place, folder: Path, background: Background, *, setup: Setup, seed: int) -> None:
        self.place, self.setup, self.seed = place, setup, seed
        self.draw = random.Random(seed)
        self.background = background
        self.installation = Installation(folder)
        (folder / "tasks.py").write_text(TASKS.read_text())
        self.recorder = Recorder(folder / "history")
        self._reader = Reader(folder / "history")
        self.receiver = background.enter(Receiver(self._receive))
        self.proxy: ToxicProxy | None = None
        self.url = place.url
        if setup.proxied and place.topology == "standalone":
            self.proxy = background.enter(ToxicProxy(place.server, self.draw))
            self.url = self.proxy.url
        self.dispatchers: list[Process] = []
        self.api: Process | None = None
        self.acknowledged: list[str] = []
        self.loads: list[Load] = []
        own = {"lease": setup.lease, "slots": setup.slots, "max_stalls": 50, "partitions": place.partitions}
        targets = setup.config.format(receiver=self.receiver.port)
        self.installation.configure(more="", **(own | setup.gateway))
        self._configure(targets)

    def _configure(self, targets: str) -> None:
        file = self.installation.folder / "gateway.toml"
        own = file.read_text().split("[targets.work]")[0]
        file.write_text(f"{own}{CONFIG}\n{targets}")

    def start(self) -> None:
        """The gateway and the dispatchers, ready for work."""
        if not self.setup.serve:
            return
        self.api = self.installation.serve(self.url)
        self.dispatchers = [self.installation.dispatch(self.url) for _ in range(self.setup.dispatchers)]
        for dispatcher in self.dispatchers:
            dispatcher.await_line("dispatcher started")

    def replace_dispatcher(self, at: int) -> Process:
        """Starts another one where there was one; it may not be ready yet."""
        self.dispatchers[at] = self.installation.dispatch(self.url)
        return self.dispatchers[at]

    def load(self, make: Make = mixed, **options: Any) -> Load:
        """Producers that go to the gateway; a tenth of the jobs asks for a callback."""
        address = f"http://127.0.0.1:{self.receiver.port}/callback"

        def with_callback(draw: random.Random) -> dict[str, Any]:
            job = make(draw)
            if draw.random() < 0.1:
                job["callback"] = {"url": address, "secret": CALLBACK_SECRET}
            return job

        base_url = str(self.installation.client.base_url)
        self.loads.append(Load(base_url, self.recorder, with_callback, seed=self.seed, **options))
        return self.loads[-1]

    def readers(self, load: Load) -> Readers:
        """Clients that read what was acknowledged."""
        return Readers(str(self.installation.client.base_url), load, seed=self.seed)

    @contextlib.contextmanager
    def fault(self, what: str) -> Iterator[None]:
        """A fault lasts as long as the block; both ends are written down."""
        self.recorder.note("fault", run=what)
        try:
            yield
        finally:
            self.recorder.note("healed", run=what)

    def await_acks(self, count: int, *, timeout_s: float = 30.0) -> None:
        """Returns once so many more jobs are acknowledged."""
        goal = self.acked + count
        until_sync(lambda: self.acked >= goal, timeout_s=timeout_s)

    @property
    def acked(self) -> int:
        return sum(len(load.acknowledged) for load in self.loads)

    def history(self) -> History:
        return self._reader.read()

    def ready(self) -> bool:
        """Does the gateway say that it is ready?"""
        return self.installation.client.get("/readyz").status_code == 200

    def reclaimed(self) -> int:
        """How many jobs were taken back from a dispatcher that was lost, once nothing runs any more."""
        until_sync(lambda: self._sample("gateway_jobs_running") == 0, timeout_s=60, every_s=0.1)
        return int(self._sample("gateway_jobs_total", event="reclaimed"))

    def _sample(self, name: str, **labels: str) -> float:
        """A metric of the gateway, added up over its other labels."""
        families = text_string_to_metric_families(self.installation.client.get("/metrics").text)
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(each.value for each in samples if labels.items() <= each.labels.items())

    def pause(self, at_least_s: float, at_most_s: float) -> None:
        """The random point itself."""
        time.sleep(self.draw.uniform(at_least_s, at_most_s))

    async def _receive(self, peer: Peer) -> None:
        while (received := await peer.read()) is not None:
            if received.path == "/callback":
                found = _JOB.search(received.body)
                if found is not None:
                    self.recorder.note("callback", [found[1].decode()], run=received.values("webhook-id")[0])
            if received.path in BEHAVIOURS:
                await BEHAVIOURS[received.path](peer)
                return
            await peer.write(answer("200 OK", orjson.dumps({"path": received.path})))

    def close(self) -> None:
        self.installation.close()
        self.recorder.close()


@contextlib.contextmanager
def on_stage(place: Place, setup: Setup, *, seed: int) -> Iterator[Stage]:
    """A stage in a folder of its own, at work; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gwfaults-", dir="/tmp"))
    try:
        with Background() as background:
            stage = Stage(place, folder, background, setup=setup, seed=seed)
            try:
                stage.start()
                yield stage
            finally:
                stage.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

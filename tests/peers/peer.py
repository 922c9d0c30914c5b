"""The systems that are measured, and the setting of each, from its documentation, for short jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """Where packages are of."""

    PYPI = "PyPI"
    NPM = "npm"
    DEBIAN = "Debian"


@dataclass(frozen=True, slots=True)
class Peer:
    """A system: what installs it, what starts its worker (beside its program), and how many jobs a run has.

    `packages` are none for this project itself, which runs as it lies.
    """

    name: str
    program: str
    packages: tuple[str, ...]
    worker: tuple[str, ...]
    setting: str
    jobs: int = 20_000
    environment: tuple[tuple[str, str], ...] = ()
    source: Source = Source.PYPI

    @property
    def distribution(self) -> str:
        """The package that its version is of."""
        return self.packages[0].partition("[")[0] if self.packages else "event-gateway"


OWN = "event-gateway"
PEERS = (
    Peer(OWN, "gateway_peer.py", (), ("gateway", "dispatch"), "one dispatcher, `slots = 400`, metrics and leases on"),
    Peer(
        "BullMQ",
        "bullmq_peer.mjs",
        ("bullmq", "ioredis"),
        ("node", "bullmq_peer.mjs", "work"),
        "one process, `concurrency: 100`, `removeOnComplete`",
        source=Source.NPM,
    ),
    Peer(
        "Sidekiq",
        "sidekiq_peer.rb",
        ("ruby-sidekiq",),
        ("ruby", "-S", "sidekiq", "-r", "./sidekiq_peer.rb", "-c", "10"),
        "one process, `concurrency` 10, Ruby without its JIT",
        jobs=10_000,
        source=Source.DEBIAN,
    ),
    Peer(
        "dramatiq",
        "dramatiq_peer.py",
        ("dramatiq[redis]", "hiredis"),
        ("dramatiq", "dramatiq_peer", "--processes", "2", "--threads", "8"),
        "2 processes of 8 threads, `dramatiq_queue_prefetch=1000`",
        environment=(("dramatiq_queue_prefetch", "1000"),),
    ),
    Peer(
        "taskiq",
        "taskiq_peer.py",
        ("taskiq-redis", "taskiq", "uvloop", "hiredis"),
        (
            "taskiq",
            "worker",
            "taskiq_peer:broker",
            "--workers",
            "1",
            "--max-async-tasks",
            "100",
            "--log-level",
            "ERROR",
        ),
        "stream broker, one worker, 100 tasks at once, no results",
        jobs=5_000,
    ),
    Peer(
        "SAQ",
        "saq_peer.py",
        ("saq[redis]", "typing-extensions", "hiredis", "uvloop"),
        ("saq", "saq_peer.settings", "--quiet"),
        "`concurrency` 100, no results",
        jobs=5_000,
    ),
    Peer(
        "huey",
        "huey_peer.py",
        ("huey", "redis", "hiredis"),
        ("huey_consumer", "huey_peer.huey", "-k", "thread", "-w", "1", "-q"),
        "one thread, no results",
        jobs=5_000,
    ),
    Peer(
        "arq",
        "arq_peer.py",
        ("arq", "hiredis", "uvloop"),
        ("arq", "arq_peer.WorkerSettings"),
        "`max_jobs` 100, `poll_delay` 5 ms, no results",
        jobs=5_000,
    ),
    Peer(
        "streaq",
        "streaq_peer.py",
        ("streaq", "hiredis", "uvloop"),
        ("streaq", "run", "streaq_peer:worker"),
        "`concurrency` 100, `prefetch` 200, no results",
        jobs=5_000,
    ),
    Peer(
        "Celery",
        "celery_peer.py",
        ("celery[redis]", "hiredis"),
        (
            *("celery", "-A", "celery_peer", "worker", "-P", "prefork", "-c", "2", "--loglevel", "ERROR"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
        "2 processes, prefetch 500, no gossip, no results",
        jobs=5_000,
    ),
    Peer(
        "RQ",
        "rq_peer.py",
        ("rq", "hiredis"),
        ("rq", "worker", "-w", "rq.worker.SimpleWorker", "--quiet", "q"),
        "`SimpleWorker`, no results",
        jobs=1_000,
    ),
)

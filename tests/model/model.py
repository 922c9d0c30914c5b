"""The engine as plain Python: what is known of every job, target and dispatcher, and what the next call must answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from gateway.keys import PRIORITY_SPAN
from tests.model.jobs import CALLBACK_ATTEMPTS, ENDS, Job
from tests.model.limits import Target
from tests.model.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.model.claims import Claim


class Broken(AssertionError):
    """The engine did what the rules forbid."""


@dataclass(slots=True)
class Dispatcher:
    """A dispatcher as Redis knows it: its heartbeat's end, and by place its last claim that gave anything."""

    alive_until_ms: int = 0
    seen_ms: int = 0
    given: dict[int, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Nonce and ids."""
    standby: Claim | None = None
    """The claim that a submit makes while `standby_until_ms` has not passed."""
    standby_until_ms: int = 0


@dataclass(slots=True)
class Model:
    """One partition. Each transition answers as the script must; `ranked` and `told` wait for `reconcile`."""

    now_us: int
    """While what is given ahead is looked at, as of when it is due: by `ahead_us` more than the time that it is."""
    lanes: tuple[str, ...]
    jobs: dict[str, Job] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    dispatchers: dict[str, Dispatcher] = field(default_factory=dict)
    heartbeats: dict[str, int] = field(default_factory=dict)
    """Dispatchers that upkeep counts as lost once this has passed, in ms."""
    idempotent: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """By hash: job id, fingerprint, and the last ms at which it is known."""
    stats: Counter[str] = field(default_factory=Counter)
    paused_lanes: set[str] = field(default_factory=set)
    lane_caps: dict[str, int] = field(default_factory=dict)
    dead_most: int = 0
    """Dead jobs kept of each target; 0: all."""
    ahead_us: int = 0
    seq: int = 0
    ranked: list[Job] = field(default_factory=list)
    """Jobs that this step gives a new place at the back, in that order."""
    told: list[tuple[Job, str]] = field(default_factory=list)
    """Ends of this step that a callback must tell of."""

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def count(self, what: str, job: Job) -> None:
        self.stats[f"{what}:{job.lane}:{job.target}"] += 1

    def with_status(self, *statuses: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.status in statuses]

    def make_ready(self, job: Job) -> None:
        """The job may be claimed from now on."""
        job.status, job.ready_ms, job.first_rank = "pending", self.now_ms, 0
        job.plain = job.target not in self.targets

    def unspend(self, job: Job, hold: str = "") -> None:
        """The job runs no longer."""
        if target := self.targets.get(job.target):
            target.unspend(job.key, hold)

    def unhold(self, job: Job) -> None:
        if target := self.targets.get(job.target):
            target.unhold(job.key, job.job_id)

    def finish(self, job: Job, status: str, reason: str = "") -> None:
        """The job has ended."""
        job.status, job.finished_ms = status, self.now_ms
        if status == "dead":
            job.reason = reason
            self._bury(job)
        self.count(status, job)
        if ENDS[status] in job.callback:
            self.told.append((job, status))

    def _bury(self, job: Job) -> None:
        """A target over its cap loses its own oldest dead, at most two at a time."""
        own = sorted(
            (other.finished_ms, other.job_id) for other in self.with_status("dead") if other.target == job.target
        )
        over = len(own) - self.dead_most if self.dead_most else 0
        for _, job_id in own[: max(0, min(over, 2))]:
            self.count("evicted", self.jobs.pop(job_id))

    def pending_in(self, lane: str) -> int:
        return sum(job.lane == lane for job in self.with_status("pending"))

    def promote(self, due: Iterable[str], *, after: int = 0) -> None:
        """These entries of `due`, in this order, have come: jobs are ready, timers let their nodes be looked at.

        Each has a turn of its own, behind so many that were given in the same call: `after`. A job that was submitted
        for later, and waits in no flow, shows it only while it waits: one that starts at once shows the rank that it
        was submitted with.
        """
        for turn, member in enumerate(due, self.seq + after + 1):
            if member.startswith("~"):
                name, _, key = member[1:].partition(":")
                node = self.targets[name].key(key) if key else self.targets[name].node
                node.timer = 0
                continue
            job = self.jobs[member]
            target = self.targets.get(job.target)
            plainly = job.status == "scheduled" and target is None
            if not (plainly or (target and target.ordered and job.key and job.status == "retrying")):
                self.ranked.append(job)
            self.unhold(job)
            self.make_ready(job)
            if plainly:
                job.first_rank, job.rank, job.ready_ms = job.rank, job.rank_of(turn), job.due_us // 1000

    def started(self, job: Job, token: str, lease_ms: int) -> None:
        """The job was given to a dispatcher."""
        job.status, job.attempt, job.token = "running", job.attempt + 1, token
        job.rank, job.first_rank = job.first_rank or job.rank, 0
        job.started_ms, job.lease_ms = self.now_ms, self.now_ms + lease_ms
        if target := self.targets.get(job.target):
            target.spend(job.key, self.now_us)
            if target.trying:
                target.breaker.probe = job.job_id

    @contextmanager
    def put_forward(self, us: int) -> Iterator[None]:
        """Looks at things as of so much later."""
        self.now_us, self.ahead_us = self.now_us + us, us
        yield
        self.now_us, self.ahead_us = self.now_us - us, 0

    def dispatcher(self, name: str) -> Dispatcher:
        """What Redis still knows of a dispatcher."""
        known = self.dispatchers.get(name)
        if known is None or known.alive_until_ms < self.now_ms:
            known = self.dispatchers[name] = Dispatcher()
        return known

    def beat(self, name: str, heartbeat_ms: int, *, at_least_ms: float = 0) -> Dispatcher:
        """A dispatcher was heard of; that says nothing new where it was heard of less than `at_least_ms` before."""
        known = self.dispatcher(name)
        since_ms = self.now_ms - known.seen_ms
        if since_ms < 0 or since_ms >= at_least_ms:  # it may have been seen in a claim ahead
            known.seen_ms = self.now_ms
            self.heartbeats[name] = self.now_ms + heartbeat_ms
            known.alive_until_ms = (self.now_us - self.ahead_us) // 1000 + heartbeat_ms
        return known

    def reconcile(self, snapshot: Snapshot, bodies: Sequence[tuple[str, bytes]]) -> list[Job]:
        """Takes over what only the engine decides, if it decided rightly: new ranks, and the ids of callbacks.

        `bodies` are those of the jobs that are new to the model. The new jobs are the result.
        """
        seq = self.seq
        for job in self.ranked:
            if job.job_id not in self.jobs:
                continue  # it came, expired and was dropped at once
            rank = int(snapshot.jobs[job.job_id]["rank"])
            new = rank - job.rank_class * PRIORITY_SPAN
            if not seq < new <= snapshot.seq:
                raise Broken(f"{job.job_id} got rank {rank}: not behind {seq} in its class, or out of turn")
            job.rank, seq = rank, new
        born = self._callbacks(snapshot, dict(bodies))
        self.ranked, self.told, self.seq = [], [], snapshot.seq
        return born

    def _callbacks(self, snapshot: Snapshot, bodies: dict[str, bytes]) -> list[Job]:
        born: list[Job] = []
        tells = {_cause_of(body): (new_id, body) for new_id, body in bodies.items()}
        for job, status in self.told:
            new_id, body = tells.get((job.job_id, status), ("", b""))
            if not bodies.pop(new_id, b""):
                raise Broken(f"{job.job_id} became {status}, and no callback tells of it")
            born.append(self._callback(new_id, job, int(snapshot.jobs[new_id]["rank"]), body))
            job.callback_id = job.callback_id if status == "retrying" else new_id
        if bodies:
            raise Broken(f"jobs that nobody asked for: {bodies}")
        if any(not self.seq < job.rank - 100 * PRIORITY_SPAN <= snapshot.seq for job in born):
            raise Broken("a callback's rank is not at the back of the middle class")
        return born

    def _callback(self, job_id: str, cause: Job, rank: int, body: bytes) -> Job:
        job = Job(job_id, cause.lane, "gateway.callback", "", 0, CALLBACK_ATTEMPTS, self.now_ms, body, rank=rank)
        self.jobs[job_id] = job
        self.make_ready(job)
        self.count("submitted", job)
        return job


def _cause_of(body: bytes) -> tuple[str, str]:
    cause = orjson.loads(body.partition(b"\n")[0] or b"{}").get("cause", {})
    return cause.get("job_id", ""), cause.get("status", "")

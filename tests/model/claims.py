"""What a claim may give: nothing beyond a limit, strictly by lane and priority, fair, in order, and all there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.jobs import Claimed
from tests.model.jobs import Job
from tests.model.model import Broken, Model
from tests.model.turns import Turns

AHEAD_MOST_US = 10_000
"""By no more a claim puts its time forward."""

HEARTBEAT_PART = 1 / 20
"""A heartbeat renewed within this part of itself is not renewed by a claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as it was sent; it may be sent again."""

    dispatcher: str
    nonce: str
    n: int
    suspects: bool
    lease_ms: int
    heartbeat_ms: int
    promote_most: int
    lanes: tuple[str, ...]
    policy: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By lane: its weight, and the most ms that its first job waits; without any, lanes go in strict order."""
    place: int = 1
    next_nonce: str = ""
    """Of the claim that a submit may make, if this one brings nothing."""
    ahead_us: int = 0
    """By so much jobs may be given before they are due."""

    @property
    def standby(self) -> Claim:
        """That claim."""
        return replace(self, nonce=self.next_nonce, suspects=False, ahead_us=0)

    @property
    def stands_in(self) -> bool:
        """Does a submit make it?"""
        return self.nonce == self.next_nonce


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; of one that a submit made, what only the dispatcher is told is None."""

    wake_us: int | None
    more: bool | None
    jobs: Sequence[Claimed]
    hold_us: int = 0


def repeated(model: Model, claim: Claim) -> list[Job] | None:
    """What a claim that was answered before must give again; None if it is a new one."""
    known = model.dispatcher(claim.dispatcher)
    nonce, job_ids = known.given.get(claim.place, ("", ()))
    if claim.next_nonce and claim.next_nonce == nonce:
        return []  # a submit has made the next one by now
    if nonce != claim.nonce:
        return None
    jobs = [model.jobs[job_id] for job_id in job_ids if job_id in model.jobs]
    return [job for job in jobs if job.status == "running" and job.token == f"{job.attempt}:{claim.nonce}"]


def held_again_us(model: Model, claim: Claim) -> int:
    """For how long what a claim gives again is to be held: until its jobs were to start."""
    _, job_ids = model.dispatcher(claim.dispatcher).given.get(claim.place, ("", ()))
    first = model.jobs.get(job_ids[0]) if job_ids else None
    hold_us = first.started_ms * 1000 - model.now_us if first and first.status == "running" else 0
    return hold_us if 0 < hold_us <= AHEAD_MOST_US else 0


def given_ahead(model: Model, claim: Claim, due: Mapping[str, int]) -> tuple[int, list[Job]]:
    """What a claim must give ahead that has found nothing else, and how long it is to be held."""
    first_us = min(due.values(), default=0)
    if not (claim.n and model.now_us < first_us < model.now_us + claim.ahead_us):
        return 0, []
    at_ms = first_us // 1000
    soon = sorted((at_us, member) for member, at_us in due.items() if at_us // 1000 <= at_ms)[: claim.promote_most]
    jobs = [model.jobs[member] for _, member in soon if member in model.jobs]
    jobs = [job for job in jobs if job.status == "scheduled" and not (job.suspect or job.expired(at_ms))]
    jobs = [job for job in jobs if job.target not in model.targets and job.lane not in model.paused_lanes]
    order = (*claim.lanes, *(lane for lane in model.lanes if lane not in claim.lanes))
    jobs.sort(key=lambda job: (order.index(job.lane), job.rank_class))
    shared = any(weight for lane, (weight, _) in claim.policy.items() if lane not in model.paused_lanes)
    if len(soon) > claim.n and (shared or len(jobs) < len(soon)):
        return 0, []
    return max(0, at_ms * 1000 - model.now_us) if jobs else 0, jobs[: claim.n]


def reachable(model: Model, job: Job) -> bool:
    """Is the job pending, and neither its target nor its key blocked, as the limits say?"""
    target = model.targets.get(job.target)
    if job.status != "pending" or job.lane in model.paused_lanes:
        return False
    now_us = model.now_us
    return target is None or (target.may_start(now_us) and target.key_may_start(job.key, now_us))


def served(model: Model, job: Job) -> bool:
    """Must the engine see that the job is reachable? Not while a timer that it could not know better of is armed."""
    target = model.targets.get(job.target)
    if target and (target.node.timer or (job.key and target.key(job.key).timer)):
        return False
    return reachable(model, job)


def candidates(model: Model, *, suspects: bool = True) -> list[Job]:
    """What a claim with enough room must give; a target one of whose keys begins with a suspect may be passed over."""
    found = [job for job in model.jobs.values() if served(model, job)]
    if suspects:
        return found
    heads: dict[tuple[str, str, str], Job] = {}
    for job in found:
        if job.queue not in heads or job.rank < heads[job.queue].rank:
            heads[job.queue] = job
    passed = {job.target for job in heads.values() if job.suspect and job.target in model.targets}
    return [job for job in found if not job.suspect and job.target not in passed]


class Audit:
    """Follows one claim job by job, as the engine says that it gave them."""

    def __init__(
        self,
        model: Model,
        turns: Turns,
        claim: Claim,
        *,
        new: Sequence[Job],
        moved: Sequence[Job],
        deaths: Sequence[Job],
    ) -> None:
        self._model = model
        self._deaths = deaths
        self._turns = turns
        self._claim = claim
        self._suspects = claim.suspects
        self._new = {job.job_id for job in new}
        self._moved = {job.job_id for job in moved}
        order = (*claim.lanes, *(lane for lane in model.lanes if lane not in claim.lanes))
        self._lane_at = {lane: at for at, lane in enumerate(order)}

    def follow(self, answer: Answer) -> None:
        """Takes over every job that the claim gave; Broken if one of them should not have been, or not yet."""
        if len(answer.jobs) > self._claim.n:
            raise Broken(f"{len(answer.jobs)} jobs for a claim of {self._claim.n}")
        for claimed in answer.jobs:
            job = self._model.jobs.get(claimed.job_id)
            if job is None:
                raise Broken(f"claimed a job that does not exist: {claimed}")
            self._is_allowed(job)
            self._is_next(job)
            self._keeps_order(job)
            self._turns.take(job, self._ready(job))
            if job.suspect:
                self._suspects = False
            self._starts(job, claimed)
        self._lives(answer.jobs)

    def follow_ahead(self, answer: Answer, right: Sequence[Job]) -> None:
        """Takes over what the claim gave ahead, while the model's time is when it is due."""
        if [claimed.job_id for claimed in answer.jobs] != [job.job_id for job in right]:
            raise Broken(f"given ahead: {answer.jobs}, it must be {right}")
        for job, claimed in zip(right, answer.jobs, strict=True):
            job.ready_ms = job.due_us // 1000
            if job.ready_ms > self._model.now_ms:
                raise Broken(f"{job.job_id} is to start before it is due")
            self._starts(job, claimed)
        self._lives(answer.jobs)

    def _starts(self, job: Job, claimed: Claimed) -> None:
        self._tells(job, claimed)
        self._model.started(job, f"{claimed.attempt}:{self._claim.nonce}", self._claim.lease_ms)

    def _lives(self, jobs: Sequence[Claimed]) -> None:
        """The dispatcher has shown that it lives, if the claim is its own, and its record what it was given."""
        heartbeat_ms = self._claim.heartbeat_ms
        if not self._claim.stands_in:
            self._model.beat(self._claim.dispatcher, heartbeat_ms, at_least_ms=heartbeat_ms * HEARTBEAT_PART)
        if jobs:
            known = self._model.dispatcher(self._claim.dispatcher)
            known.given[self._claim.place] = self._claim.nonce, tuple(job.job_id for job in jobs)

    def left_over(self) -> list[Job]:
        """What was there to take and was not taken."""
        return [job for job in candidates(self._model, suspects=self._suspects) if job.job_id not in self._new]

    def _is_allowed(self, job: Job) -> None:
        if job.status != "pending":
            raise Broken(f"{job.job_id} claimed while it is {job.status}")
        if job.expired(self._model.now_ms):
            raise Broken(f"{job.job_id} claimed after it expired")
        if not reachable(self._model, job):
            raise Broken(f"{job.job_id} of {job.queue} claimed though a limit forbids it")
        if job.suspect and not self._suspects:
            raise Broken(f"{job.job_id} is a suspect too many")

    def _is_next(self, job: Job) -> None:
        left = [other for other in self.left_over() if not other.expired(self._model.now_ms)]
        lane_at = self._lane_at[job.lane]
        mine = self._place(job)
        for other in left:
            if self._lane_at[other.lane] < lane_at and not self._claim.policy:
                raise Broken(f"{job.job_id} in {job.lane} before {other.job_id} in {other.lane}")
            if other.lane != job.lane:
                continue
            if other.rank_class < job.rank_class:
                raise Broken(f"{job.job_id} of priority {job.priority} before {other.job_id} of {other.priority}")
            if other.rank < mine and (other.target != job.target or other.target not in self._model.targets):
                raise Broken(f"{job.job_id} of {job.target} before {other.job_id} of {other.target}, which came first")
            if other.queue == job.queue and other.rank < job.rank:
                raise Broken(f"{job.job_id} before {other.job_id}, which came first in {job.queue}")

    def _place(self, job: Job) -> int:
        """Where in the lane it was served: a target with flows stands at its first job, be it expired or a suspect."""
        if job.target not in self._model.targets:
            return job.rank
        waiting = [other for other in self._model.jobs.values() if not other.plain and served(self._model, other)]
        return min(
            other.rank
            for other in (job, *self._deaths, *waiting)
            if (other.lane, other.target, other.rank_class) == (job.lane, job.target, job.rank_class)
        )

    def _keeps_order(self, job: Job) -> None:
        """Nothing of the job's key may lie before it; where the target is ordered, nothing else of it may be live."""
        target = self._model.targets.get(job.target)
        for other in self._model.jobs.values():
            if other is job or other.queue != job.queue or other.finished:
                continue
            if target and other.status == "pending" and other.rank < job.rank and not (other.plain or job.plain):
                raise Broken(f"{job.job_id} before {other.job_id} ({other.status}) in {job.queue}")
            if target and target.ordered and job.key and other.status == "running":
                raise Broken(f"{job.job_id} while {other.job_id} runs, in the ordered {job.queue}")

    def _tells(self, job: Job, claimed: Claimed) -> None:
        now_ms = self._model.now_ms
        tells = facts_of(claimed)
        right = (job.attempt + 1, job.max_attempts, *job_facts(job), now_ms - job.ready_ms)
        if tells != right:
            raise Broken(f"{job.job_id} claimed as {tells}, it is {right}")

    def _ready(self, job: Job) -> set[str]:
        """The keys that take turns with the job's; those that this claim brought in may have come too late for it."""
        return {
            other.key
            for other in self.left_over()
            if (other.lane, other.target, other.rank_class) == (job.lane, job.target, job.rank_class)
            and not (other.plain or other.job_id in self._moved or other.expired(self._model.now_ms))
        }


def job_facts(job: Job) -> tuple[object, ...]:
    return job.target, job.lane, job.key, job.previous_ms, job.created_ms, job.suspect, job.body


def facts_of(claimed: Claimed) -> tuple[object, ...]:
    """What a claimed job says of itself, in the order of the model's own facts."""
    it = claimed
    return (
        it.attempt, it.max_attempts, it.target, it.lane, it.key, it.previous_delay_ms, it.created_ms, it.suspect,
        it.body, it.waited_ms,
    )  # fmt: skip

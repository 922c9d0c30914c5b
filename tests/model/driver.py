"""Does things to the engine and to the model at once, and compares them after each."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gateway.jobs import Claimed, Settlement, Submission
from gateway.keys import format_id
from gateway.store.claimed import parse_claim, parse_handed
from gateway.store.scripts import Arg
from gateway.store.submit_call import read_submitted, submit_args
from gateway.store.worker import claim_ways, read_settled, settle_args
from tests.model import transitions
from tests.model.checks import check_counters, check_dead, check_jobs, check_leaks, check_suspects, check_whole
from tests.model.claims import (
    Answer,
    Audit,
    Claim,
    candidates,
    facts_of,
    given_ahead,
    held_again_us,
    job_facts,
    reachable,
    repeated,
)
from tests.model.engine import Engine
from tests.model.flows import check_flows
from tests.model.jobs import Job
from tests.model.model import Broken, Model
from tests.model.snapshot import Snapshot
from tests.model.turns import Turns

START_US = 1_760_000_000_000_123
LANES = ("critical", "default", "low")
OLD_LANE = "old"
"""A lane that is no longer configured: it still drains, last."""

DEAD = {"status": "dead"}

LISTENING = ("d1", "d2")
"""The dispatchers that can be woken; the third one hears of nothing."""

HANDED_MOST = 8
"""Jobs of a submit that makes the claim that stands by."""

STANDBY_MS = 2000
"""How long it does."""


@dataclass(slots=True)
class Tally:
    """What a run did."""

    examples: int = 0
    steps: int = 0
    jobs: int = 0
    claims: int = 0
    claimed: int = 0
    handed: int = 0
    ahead: int = 0


@dataclass(slots=True)
class Driver:
    """One life of one partition. Every method raises Broken if the engine breaks a rule."""

    engine: Engine
    tally: Tally
    beside: Engine
    """Another one, for what is to come to the same."""
    model: Model = field(init=False)
    snapshot: Snapshot = field(init=False)
    turns: Turns = field(default_factory=Turns)
    registered: bool = True
    """Is anything? Else no claim is answered."""
    sound: bool = True
    """Did every step so far end well?"""
    _ids: int = 0
    _nonces: int = 0

    def __post_init__(self) -> None:
        self.model = Model(START_US, (*LANES, OLD_LANE))
        self.engine.clear(START_US)
        self.configure(0, {})

    def new_id(self) -> str:
        self._ids += 1
        return format_id(self.model.now_ms, self._ids * 0x9E3779B97F4A7C15, 0)

    def new_nonce(self, name: str) -> str:
        """As a dispatcher makes them."""
        self._nonces += 1
        return f"{name}.{self._nonces}"

    def configure(self, dead_most: int, lane_caps: Mapping[str, int]) -> None:
        """How many dead jobs of a target are kept (0: all), and how many pending ones each lane takes in."""
        caps = ",".join(f"{lane}={cap}" for lane, cap in lane_caps.items()) or "-"
        self.model.dead_most, self.model.lane_caps = dead_most, dict(lane_caps)
        self.engine.run("configure", [1, "", dead_most, caps, *self.model.lanes])
        _, self.snapshot = self.engine.run("register", ["epoch"])

    def advance(self, us: int) -> None:
        """Time passes."""
        self.model.now_us += us
        self.engine.advance(self.model.now_us)
        self.turns.refresh(self.model)

    def set_registered(self, registered: bool) -> None:
        self.registered = registered
        if registered:
            self.engine.run("register", ["epoch"])
        else:
            self.engine.forget_registration()

    def forget_scripts(self) -> None:
        self.engine.forget_scripts()

    def submit(self, jobs: Sequence[Submission]) -> None:
        self.tally.jobs += len(jobs)
        args = submit_args(jobs)

        def results(reply: bytes) -> list[tuple[str, str, str]]:
            return [(it.verdict, it.job_id, it.status) for it in read_submitted(jobs, reply)]

        self.sound = False
        before = {job.job_id for job in candidates(self.model)}
        standby = self._standby()
        due = self._due()
        reply, snapshot = self.engine.run("submit", args)
        check_whole(snapshot)
        known = set(self.model.jobs)
        right = transitions.submit(self.model, jobs)
        if (there := results(reply)) != right:
            raise Broken(f"submit answered {there}, it must answer {right}")
        new = [self.model.jobs[job_id] for _, job_id, _ in right if job_id in self.model.jobs and job_id not in known]
        # it is told what its claim brought, or that it is to claim by itself, and stays among the idle
        told = bool(standby) and len(jobs) <= HANDED_MOST and any(not job.due_us for job in new)
        if standby and told:
            self._hand_over(standby, snapshot, due, new, after=len(jobs))
        self._end_step("submit", snapshot, before, told=told)

    def _standby(self) -> Claim | None:
        """The claim that a submit is to make, if it brings something."""
        idle = self.snapshot.zset("idle")
        if not idle or (first := min(idle, key=lambda name: (idle[name], name))) not in LISTENING:
            return None
        known = self.model.dispatchers.get(first)
        return known.standby if known and known.standby_until_ms >= self.model.now_ms else None

    def _due(self) -> list[str]:
        return [member for member, at in self.snapshot.zset("due").items() if at <= self.model.now_us]

    def _hand_over(
        self, standby: Claim, snapshot: Snapshot, due: Sequence[str], new: Container[Job], *, after: int
    ) -> None:
        """`after`: so many turns have been given before what is due by then gets its own."""
        answer = Answer(None, None, ())
        field = "nonce" if standby.place == 1 else "nonce2"
        told = self.engine.heard(standby.dispatcher)
        if not (told or self.registered):
            self.model.dispatcher(standby.dispatcher).standby = None
            return
        if snapshot.hash(f"dispatcher:{standby.dispatcher}").get(field) == standby.nonce:
            reply, _ = self.engine.run("claim", _args(replace(standby, next_nonce="")))
            jobs = list(parse_claim(reply, partition=0, nonce=standby.nonce)[2])
            answer = _told(standby, told, jobs) if told else Answer(None, None, jobs)
        # of jobs that are no longer as they were submitted it is not told
        if not told and answer.jobs and all(self.model.jobs.get(it.job_id) in new for it in answer.jobs):
            raise Broken(f"{standby.dispatcher} was not told of {answer.jobs}")
        if told and not answer.jobs:
            raise Broken(f"{standby.dispatcher} was told {told!r}, it is to claim by itself")
        self.tally.handed += len(answer.jobs)
        self._follow(standby, answer, snapshot, due[: standby.promote_most], after=after)

    def settle(self, items: Sequence[Settlement]) -> None:
        def statuses(reply: bytes) -> list[str]:
            return list(read_settled(items, reply))

        self._step("settle", settle_args(items), lambda: transitions.settle(self.model, items), statuses)

    def exchange(self, items: Sequence[Settlement], claim: Claim) -> int:
        """Settles, and then claims: how many jobs that gave. Beside it one script does both, and comes to the same."""
        self.beside.become(self.engine)
        # by what each has met before it goes through a lane in its own way, and brings more or less of these into flows
        if any(job.plain and job.target in self.model.targets for job in self.model.with_status("pending")):
            self.engine.forget_scripts()
        (settled, given), there = self.beside.run("exchange", [*settle_args(items), *_args(claim)])
        self.settle(items)
        if settled != self.engine.said:
            raise Broken(f"an exchange answered {settled} to what it settled, it must answer {self.engine.said}")
        taken = self.claim(claim)
        if given != self.engine.said:
            raise Broken(f"an exchange claimed {given}, it must claim {self.engine.said}")
        if differs := self.snapshot.differs_from(there):
            raise Broken(f"an exchange leaves other data: {differs}")
        return taken

    def extend(self, name: str, held: Sequence[tuple[str, str]], lease_ms: int, heartbeat_ms: int) -> None:
        args: list[Arg] = [name, lease_ms, heartbeat_ms, msgspec.msgpack.encode(held)]
        self._step("extend", args, lambda: transitions.extend(self.model, name, held, lease_ms, heartbeat_ms), list)

    def heartbeat(self, job_id: str, token: str) -> None:
        self._step("heartbeat", [job_id, token, ""], lambda: transitions.heartbeat(self.model, job_id, token), int)

    def reap(self, most: int, max_stalls: int) -> None:
        self._step("reap", [most, max_stalls], lambda: transitions.reap(self.model, most, max_stalls), _pairs)

    def cancel(self, job_id: str, nonce: str) -> None:
        self._step("cancel", [job_id, nonce], lambda: transitions.cancel(self.model, job_id, nonce), bytes.decode)

    def replay(self, nonce: str, max_attempts: int, job_ids: Sequence[str]) -> None:
        args: list[Arg] = [nonce, max_attempts, *job_ids]
        self._step("replay", args, lambda: transitions.replay(self.model, nonce, max_attempts, job_ids), _texts)

    def pause_lane(self, lane: str, paused: bool) -> None:
        def change() -> int:
            (self.model.paused_lanes.add if paused else self.model.paused_lanes.discard)(lane)
            return 1

        self._step("lane_control", [lane, int(paused)], change, int)

    def control(self, target: str, fields: Mapping[str, int]) -> None:
        args: list[Arg] = [target]
        for name, value in fields.items():
            args += (name, value)
        self._step("flow_control", args, lambda: transitions.control(self.model, target, fields), int)

    def upkeep(self, keep: transitions.Retention) -> None:
        args: list[Arg] = [keep.finished_ms, keep.finished_most, keep.dead_ms, keep.most]
        self._step("upkeep", args, lambda: transitions.upkeep(self.model, keep), list)

    def leave(self, name: str) -> None:
        def gone() -> str:
            self.model.dispatchers.pop(name, None)
            self.model.heartbeats.pop(name, None)
            return "OK"

        self._step("leave", [name], gone, bytes.decode)

    def inspect(self) -> None:
        """Depths and counts as they are shown."""
        self.sound = False
        reply, snapshot = self.engine.run("inspect", list(self.model.lanes))
        model = self.model
        shown = (*reply[:4], *reply[9::6], *reply[11::6], *reply[12::6], *reply[13::6], *reply[14::6])
        statuses = (("running",), ("dead",), ("succeeded", "cancelled"))
        right = [len(snapshot.zset("due")), *(len(model.with_status(*each)) for each in statuses)]
        pending = model.with_status("pending")
        right += [sum(job.lane == lane for job in pending) for lane in model.lanes]
        right += [int(lane in model.paused_lanes) for lane in model.lanes]
        for status in ("scheduled", "retrying", "dead"):
            right += [sum(job.lane == lane for job in model.with_status(status)) for lane in model.lanes]
        if shown != tuple(right):
            raise Broken(f"inspect shows {shown}, it is {right}")
        self._check(snapshot)

    def claim(self, claim: Claim) -> int:
        """Claims, or asks for the same claim once more: how many jobs it gave."""
        self.tally.claims += 1
        self.sound = False
        again = repeated(self.model, claim)
        due = self._due()
        reply, snapshot = self.engine.run("claim", _args(claim))
        check_whole(snapshot)
        wake_us, more, jobs = parse_claim(reply, partition=0, nonce=claim.nonce)
        answer = Answer(wake_us, more, jobs, jobs.hold_us)
        if again is not None:
            held_us = held_again_us(self.model, claim)
            with self.model.put_forward(held_us):
                _is_repeated(answer, again, held_us)
                for job in again:
                    job.lease_ms = job.lease_ms if job.within_ms else self.model.now_ms + claim.lease_ms
        else:
            self._follow(claim, answer, snapshot, due[: claim.promote_most])
        self.tally.claimed += len(answer.jobs)
        self._check(snapshot)
        return len(answer.jobs)

    def _follow(self, claim: Claim, answer: Answer, snapshot: Snapshot, due: Sequence[str], *, after: int = 0) -> None:
        model = self.model
        model.promote(due, after=after)
        self.turns.refresh(model)  # a job that comes and has expired may move its key to another class, and back
        deaths = [
            job
            for job in model.with_status("pending")
            if job.expired(model.now_ms) and snapshot.jobs.get(job.job_id, DEAD)["status"] == "dead"
        ]
        for job in deaths:
            if not reachable(model, job):
                raise Broken(f"{job.job_id} of {job.queue} expired though its flow is blocked")
        for job in deaths:
            model.finish(job, "dead", "expired")
        born = self._reconcile(snapshot)
        moved = self._move(snapshot)
        audit = Audit(model, self.turns, claim, new=born, moved=moved, deaths=deaths)
        excuse = bool(deaths or moved)
        if any(model.jobs[it.job_id].status == "pending" for it in answer.jobs if it.job_id in model.jobs):
            audit.follow(answer)
            left = audit.left_over()
        else:
            left = audit.left_over()
            if left and answer.jobs:
                raise Broken(f"claimed ahead, though there are {[job.job_id for job in left]}")
            self._follow_ahead(claim, answer, snapshot, audit, excuse=excuse)
        self._is_complete(claim, answer, snapshot, left, excuse=excuse)
        self._stand_by(claim, answer, snapshot)

    def _follow_ahead(self, claim: Claim, answer: Answer, snapshot: Snapshot, audit: Audit, *, excuse: bool) -> None:
        model = self.model
        due = {member: int(at) for member, at in snapshot.zset("due").items()}
        due |= {it.job_id: model.jobs[it.job_id].due_us for it in answer.jobs if it.job_id in model.jobs}
        hold_us, right = (0, []) if excuse and not answer.jobs else given_ahead(model, claim, due)
        if answer.hold_us != hold_us:
            raise Broken(f"to be held for {answer.hold_us} us, it must be {hold_us}")
        with model.put_forward(hold_us):
            audit.follow_ahead(answer, right)
        self.tally.ahead += len(right)

    def _stand_by(self, claim: Claim, answer: Answer, snapshot: Snapshot) -> None:
        """What stands by for the dispatcher from now on."""
        known = self.model.dispatcher(claim.dispatcher)
        waits = not answer.jobs and claim.n and answer.wake_us != 0 and claim.dispatcher in snapshot.zset("idle")
        known.standby = claim.standby if claim.next_nonce and waits and not claim.stands_in else None
        known.standby_until_ms = self.model.now_ms + STANDBY_MS
        if (known.standby is not None) != (f"standby:{claim.dispatcher}" in snapshot.strings):
            raise Broken(f"the claim that stands by for {claim.dispatcher}: {known.standby}")

    def _move(self, snapshot: Snapshot) -> list[Job]:
        """Plain jobs of a target that has gained flows since, which the claim has put into its flow (or taken)."""
        moved = []
        for job in self.model.with_status("pending"):
            if job.plain and job.target in self.model.targets:
                places = [name for name, _ in snapshot.places[job.job_id]]
                if places in (["leases"], [f"flow:{job.lane}:{job.target}:{job.key}"]):
                    moved.append(job)
        for job in moved:
            job.plain = False
        return moved

    def _is_complete(
        self, claim: Claim, answer: Answer, snapshot: Snapshot, left: Sequence[Job], *, excuse: bool
    ) -> None:
        first_due = min(snapshot.zset("due").values(), default=None)
        wake_us = -1 if first_due is None else max(0, first_due - self.model.now_us)
        if answer.wake_us is None:
            answer = Answer(wake_us, bool(left), answer.jobs)
        if answer.wake_us != wake_us:
            raise Broken(f"the claim says that it should look again in {answer.wake_us} us, it is {wake_us}")
        if len(answer.jobs) < claim.n:
            if answer.more and not excuse:
                raise Broken(f"a claim of {claim.n} gave {len(answer.jobs)} and gave up before its end")
            if left and not answer.more:
                raise Broken(f"a claim of {claim.n} gave {len(answer.jobs)}, stuck: {[job.queue for job in left]}")
        elif left and not answer.more:
            raise Broken(f"the claim says that there is no more: {[job.queue for job in left]}")
        elif left and self._woke_nobody(snapshot, but=claim.dispatcher):
            raise Broken(f"there is more, and nobody else was woken of {snapshot.zset('idle')}")

    def _step(self, name: str, args: Sequence[Arg], model: Callable[[], object], read: Callable[[Any], object]) -> None:
        self.sound = False
        before = {job.job_id for job in candidates(self.model)}
        reply, snapshot = self.engine.run(name, args)
        check_whole(snapshot)
        right = model()
        if (there := read(reply)) != right:
            raise Broken(f"{name} answered {there}, it must answer {right}")
        self._end_step(name, snapshot, before)

    def _end_step(self, name: str, snapshot: Snapshot, before: Container[str], *, told: bool = False) -> None:
        """`before` are the ids of what was ready before it; `told`: somebody was woken for certain."""
        woke_nobody = not told and self._woke_nobody(snapshot)
        self._reconcile(snapshot)
        self._check(snapshot)
        ready = [job for job in candidates(self.model) if job.job_id not in before]
        # one that came before its target had flows is not looked at until a claim meets it
        new = [job.job_id for job in ready if not (job.plain and job.target in self.model.targets)]
        if new and woke_nobody:
            raise Broken(f"{name} made {new} ready and woke nobody of {snapshot.zset('idle')}")

    def _woke_nobody(self, snapshot: Snapshot, but: str = "") -> bool:
        """Is everybody else still idle who was before?"""
        before = set(self.snapshot.zset("idle")) - {but}
        return bool(before) and before <= set(snapshot.zset("idle"))

    def _reconcile(self, snapshot: Snapshot) -> list[Job]:
        new = [job_id for job_id in snapshot.jobs if job_id not in self.model.jobs]
        return self.model.reconcile(snapshot, [(job_id, self.engine.body(job_id)) for job_id in new])

    def _check(self, snapshot: Snapshot) -> None:
        self.tally.steps += 1
        check_jobs(self.model, snapshot)
        check_suspects(self.model, snapshot)
        check_dead(self.model, snapshot)
        check_counters(self.model, snapshot)
        check_leaks(self.model, snapshot)
        check_flows(self.model, snapshot, self.engine.prefix)
        self.turns.refresh(self.model)
        self.snapshot = snapshot
        self.sound = True


def _args(claim: Claim) -> list[Arg]:
    lanes = [(lane, *claim.policy.get(lane, (0, 0))) for lane in claim.lanes]
    ways = claim_ways(claim.lease_ms, claim.promote_most, claim.heartbeat_ms, lanes)
    return [
        claim.dispatcher,
        claim.nonce,
        claim.n,
        int(claim.suspects),
        claim.place,
        claim.next_nonce,
        ways,
        claim.ahead_us,
    ]


def _told(standby: Claim, told: bytes, jobs: Sequence[Claimed]) -> Answer:
    """What a dispatcher is told that a submit has claimed for it: these jobs."""
    word, _, rest = told.partition(b" ")
    nonce, reply = parse_handed(rest) if word == b"claimed" else ("", ())
    if nonce != standby.nonce:
        raise Broken(f"{standby.dispatcher} was told {told!r} of {standby.nonce}")
    wake_us, more, given = parse_claim(reply, partition=0, nonce=nonce)
    if list(given) != jobs:
        raise Broken(f"{standby.dispatcher} was told of {given}, it was given {jobs}")
    return Answer(wake_us, more, jobs)


def _is_repeated(answer: Answer, jobs: Sequence[Job], held_us: int) -> None:
    there = [(claimed.job_id, facts_of(claimed)[:-1]) for claimed in answer.jobs]
    right = [(job.job_id, (job.attempt, job.max_attempts, *job_facts(job))) for job in jobs]
    if there != right:
        raise Broken(f"a claim asked for again gave {there}, it gave {right} first")
    if answer.hold_us != held_us:
        raise Broken(f"a claim asked for again is to be held for {answer.hold_us} us, it must be {held_us}")


def _texts(reply: Sequence[bytes]) -> list[str]:
    return [text.decode() for text in reply]


def _pairs(reply: Sequence[bytes]) -> list[tuple[str, str]]:
    texts = _texts(reply)
    return list(zip(texts[::2], texts[1::2], strict=True))

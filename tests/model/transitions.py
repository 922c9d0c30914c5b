"""What each script does, in the model: its effect, and the answer that the real one must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.jobs import Settlement, Submission, pack_body
from gateway.store.submit_call import event_codes
from tests.model.breaker import Breaker
from tests.model.jobs import Job
from tests.model.limits import KEY_LIMITS, Target
from tests.model.model import Model

REASONS = ("exhausted", "fatal", "no_target")
"""Those that a settle may give; `gone` is `fatal`, and disables the target."""


def submit(model: Model, jobs: Sequence[Submission]) -> list[tuple[str, str, str]]:
    """Verdict, id and status of each."""
    room = {lane: cap - model.pending_in(lane) for lane, cap in model.lane_caps.items()}
    return [_submit(model, job, room) for job in jobs]


def _submit(model: Model, it: Submission, room: dict[str, int]) -> tuple[str, str, str]:
    if known := model.jobs.get(it.job_id):
        return "accepted", it.job_id, known.status
    idem = it.idempotency
    if idem and idem.key_hash in model.idempotent:
        first_id, fingerprint, until_ms = model.idempotent[idem.key_hash]
        if model.now_ms <= until_ms:
            first = model.jobs.get(first_id)
            if not (first and first.status == "dead" and idem.fingerprint.startswith("~")):
                own = first_id == it.job_id  # the same call again, after its job was done and dropped
                verdict = "conflict" if fingerprint != idem.fingerprint else "accepted" if own else "duplicate"
                return verdict, first_id, first.status if first else "gone"
    if not it.delay_ms and room.get(it.lane, 1) <= 0:
        return "full", it.job_id, ""
    if not it.delay_ms and it.lane in room:
        room[it.lane] -= 1
    job = Job(
        it.job_id, it.lane, it.target, it.key, it.priority, it.max_attempts, model.now_ms,
        pack_body(it.options, it.payload).encode(),
        event_codes(it.options.callback), model.now_ms + it.expires_ms if it.expires_ms else 0,
    )  # fmt: skip
    model.jobs[it.job_id] = job
    model.ranked.append(job)
    model.make_ready(job)
    if it.delay_ms:
        job.status, job.due_us = "scheduled", model.now_us + it.delay_ms * 1000
    if idem:
        model.idempotent[idem.key_hash] = (it.job_id, idem.fingerprint, model.now_ms + idem.window_ms)
    model.count("submitted", job)
    return "accepted", it.job_id, job.status


def settle(model: Model, items: Sequence[Settlement]) -> list[str]:
    """The status of each, or duplicate, or lost. Those that succeeded without a result come first in the script."""
    order = sorted(range(len(items)), key=lambda at: items[at].outcome != "succeeded" or items[at].result != "")
    statuses = {at: _settle(model, items[at]) for at in order}
    return [statuses[at] for at in range(len(items))]


def _settle(model: Model, it: Settlement) -> str:
    job = model.jobs.get(it.job_id)
    if job is None or job.status != "running" or job.token != it.token:
        return "duplicate" if job is not None and job.token == it.token else "lost"
    outcome, reason = it.outcome, it.reason
    if job.cancel and outcome in ("retry", "released", "parked"):
        outcome = "cancelled"
    if outcome == "parked":
        return _park(model, job, it)
    delay_ms = max(it.delay_ms, _unpark(job))
    if outcome == "retry" and job.attempt >= job.max_attempts:
        outcome, reason = "dead", "exhausted"
    if target := model.targets.get(job.target):
        died_of = reason if outcome == "dead" else ""
        if outcome == "retry" or died_of == "exhausted":
            outcome = "released" if target.judge(job.job_id, model.now_us, failed=True) else outcome
        elif outcome == "succeeded" or died_of == "fatal":
            target.judge(job.job_id, model.now_us, failed=False)
        elif died_of == "gone":
            target.fields["paused"], reason = 2, "fatal"
    if job.suspect and outcome != "released":
        job.suspect, job.stalls = False, 0
    if outcome == "retry":
        _retry(model, job, delay_ms)
    elif outcome == "released":
        model.unspend(job)
        job.attempt -= 1
        model.make_ready(job)
    else:
        model.unspend(job)
        model.finish(job, outcome, "fatal" if reason == "gone" else reason if reason in REASONS else "")
    return job.status


def _retry(model: Model, job: Job, delay_ms: int) -> None:
    target = model.targets.get(job.target)
    model.unspend(job, job.job_id if target and target.ordered else "")
    job.status, job.previous_ms, job.due_us = "retrying", delay_ms, model.now_us + delay_ms * 1000
    model.count("retried", job)
    if "r" in job.callback:
        model.told.append((job, "retrying"))


def _park(model: Model, job: Job, it: Settlement) -> str:
    if not job.within_ms:
        job.within_ms, job.least_ms, job.lease_ms = it.delay_ms, int(it.reason), model.now_ms + it.delay_ms
        if target := model.targets.get(job.target):
            target.judge(job.job_id, model.now_us, failed=False)
    return "parked"


def _unpark(job: Job) -> int:
    """Its work goes on elsewhere no longer: what a retry waits at least."""
    least_ms, job.within_ms, job.least_ms = job.least_ms, 0, 0
    return least_ms


def heartbeat(model: Model, job_id: str, token: str) -> int:
    """The new deadline of a job whose work goes on elsewhere, 0 for any other."""
    job = model.jobs.get(job_id)
    if job is None or job.status != "running" or job.token != token or not job.within_ms:
        return 0
    job.lease_ms = model.now_ms + job.within_ms
    return job.lease_ms


def extend(model: Model, name: str, held: Sequence[tuple[str, str]], lease_ms: int, heartbeat_ms: int) -> list[int]:
    """0 lost, 1 renewed, 2 renewed and to be cancelled, for each."""
    model.beat(name, heartbeat_ms)
    verdicts = []
    for job_id, token in held:
        job = model.jobs.get(job_id)
        if job is None or job.status != "running" or job.token != token:
            verdicts.append(0)
            continue
        if not job.within_ms:
            job.lease_ms = model.now_ms + lease_ms
        verdicts.append(2 if job.cancel else 1)
    return verdicts


def reap(model: Model, most: int, max_stalls: int) -> list[tuple[str, str]]:
    """Ids and the status each has now, in the order of their deadlines."""
    over = sorted((job.lease_ms, job.job_id) for job in model.with_status("running") if job.lease_ms <= model.now_ms)
    return [(job_id, _reap(model, model.jobs[job_id], max_stalls)) for _, job_id in over[:most]]


def _reap(model: Model, job: Job, max_stalls: int) -> str:
    if job.within_ms:
        return _reap_parked(model, job)
    stalls = job.stalls + (1 if job.suspect else 0)
    job.token = ""
    model.unspend(job)
    model.count("reclaimed", job)
    if job.cancel:
        model.finish(job, "cancelled")
    elif stalls > max_stalls:
        job.stalls = stalls
        model.finish(job, "dead", "stalled")
    else:
        job.attempt, job.suspect, job.stalls = job.attempt - 1, True, stalls
        model.make_ready(job)
    return job.status


def _reap_parked(model: Model, job: Job) -> str:
    """Nobody told of its end in time: a failed attempt."""
    delay_ms = _unpark(job)
    if job.attempt < job.max_attempts:
        _retry(model, job, delay_ms)
    else:
        model.unspend(job)
        model.finish(job, "dead", "exhausted")
    return job.status


def cancel(model: Model, job_id: str, nonce: str) -> str:
    """cancelled, asked, over or none."""
    job = model.jobs.get(job_id)
    if job is None:
        return "none"
    if job.status == "cancelled" and job.cancel == nonce:
        return "cancelled"
    if job.finished:
        return "over"
    job.cancel = nonce
    if job.status == "running" and not job.within_ms:
        return "asked"
    if job.status == "running":
        _unpark(job)
        model.unspend(job)
        model.finish(job, "cancelled")
        return "cancelled"
    model.unhold(job)
    model.finish(job, "cancelled")
    return "cancelled"


def replay(model: Model, nonce: str, max_attempts: int, job_ids: Sequence[str]) -> list[str]:
    """replayed, not_dead or none, for each."""
    return [_replay(model, nonce, max_attempts, model.jobs.get(job_id)) for job_id in job_ids]


def _replay(model: Model, nonce: str, max_attempts: int, job: Job | None) -> str:
    if job is None:
        return "none"
    if job.replay == nonce:
        return "replayed"
    if job.status != "dead":
        return "not_dead"
    job.attempt = job.stalls = job.previous_ms = job.expires_ms = job.finished_ms = 0
    job.suspect, job.replay, job.max_attempts = False, nonce, max_attempts or job.max_attempts
    job.reason = job.token = job.cancel = job.callback_id = ""
    model.ranked.append(job)
    model.make_ready(job)
    model.count("replayed", job)
    return "replayed"


def control(model: Model, name: str, fields: Mapping[str, int]) -> int:
    """1 if the target has flows from now on, 0 if it had."""
    target = model.targets.get(name)
    new = target is None
    if target is None:
        target = model.targets[name] = Target(name, {})
        for job in model.with_status("pending"):
            job.plain = job.plain and not (job.target == name and job.suspect)
        for job in model.with_status("running"):
            if job.target == name:
                target.node.running += 1
                target.key(job.key).running += 1 if job.key else 0
    target.fields.update(fields)
    keyed = any(target.fields.get(field) for field in KEY_LIMITS)
    target.bare = 1 if new and not keyed else 2 if target.bare == 1 and keyed else target.bare
    if fields.get("open_until") == 0:
        target.breaker = Breaker()
    if any(field.startswith("key_") or field == "ordered" for field in fields):
        target.keys_changed_us = None if new else model.now_us
    pace = target.pace()
    if pace.interval:  # what a slower rate has used up does not outlast a full burst of the new one
        target.node.tat = min(target.node.tat, model.now_us + pace.burst * pace.interval)
    return 1 if new else 0


@dataclass(frozen=True, slots=True)
class Retention:
    """The arguments of upkeep."""

    finished_ms: int
    finished_most: int
    dead_ms: int
    most: int


def upkeep(model: Model, keep: Retention) -> list[int]:
    """Jobs removed, is there more to remove, dispatchers lost."""
    removed, more = 0, 0
    sorts = ((("succeeded", "cancelled"), keep.finished_ms, keep.finished_most), (("dead",), keep.dead_ms, 1_000_000))
    for statuses, age_ms, at_most in sorts:
        kept = sorted((job.finished_ms, job.job_id) for job in model.with_status(*statuses))
        old = sum(finished_ms <= model.now_ms - age_ms for finished_ms, _ in kept)
        excess = max(len(kept) - at_most, old)
        more = 1 if excess > keep.most - removed else more
        for _, job_id in kept[: min(excess, keep.most - removed)]:
            model.count("evicted", model.jobs.pop(job_id))
            removed += 1
    lost = [name for name, until_ms in model.heartbeats.items() if until_ms <= model.now_ms]
    for name in lost:
        del model.heartbeats[name]
    if lost:
        model.stats["dispatcher_deaths"] += len(lost)
    return [removed, more, len(lost)]

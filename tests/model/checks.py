"""What must be true after every script: each job in one place, counts exact, nothing left behind."""

from __future__ import annotations

from collections import Counter

from tests.model.clock import EXPIRIES
from tests.model.jobs import Job
from tests.model.model import Broken, Model
from tests.model.snapshot import Snapshot

PLACES = {
    "scheduled": ("due", "due_us"),
    "retrying": ("due", "due_us"),
    "running": ("leases", "lease_ms"),
    "succeeded": ("done", "finished_ms"),
    "cancelled": ("done", "finished_ms"),
    "dead": ("dead", "finished_ms"),
}
KEPT = {
    "conf",
    "gist",
    "credit",
    "seq",
    "state",
    "stats",
    "waiting",
    "states",
    "due",
    "leases",
    "dead",
    "done",
    "counted",
    "dispatchers",
    "idle",
    "test:clock",
    EXPIRIES,
}
FAMILIES = {
    "standby",
    "j",
    "b",
    "r",
    "e",
    "lane",
    "suspect",
    "flow",
    "flows",
    "ring",
    "earlier",
    "heads",
    "ft",
    "fk",
    "fb",
    "idem",
    "dispatcher",
    "dead",
}


def check_whole(snapshot: Snapshot) -> None:
    """No record is half of one."""
    for job_id, record in snapshot.jobs.items():
        if "status" not in record or "rank" not in record:
            raise Broken(f"{job_id} has half a record: {record}")


def check_jobs(model: Model, snapshot: Snapshot) -> None:
    """Every job has the record and the one place that it must have, and nothing has a place that is no job."""
    if snapshot.jobs.keys() != model.jobs.keys():
        raise Broken(f"jobs there and not wanted, or the reverse: {snapshot.jobs.keys() ^ model.jobs.keys()}")
    for job_id, job in model.jobs.items():
        record = snapshot.jobs[job_id]
        _check_record(job, record)
        _check_place(model, job, snapshot.places.get(job_id, []))
    if strangers := snapshot.places.keys() - model.jobs.keys():
        raise Broken(f"members that are no jobs: { {one: snapshot.places[one] for one in strangers} }")


def _check_record(job: Job, record: dict[str, str]) -> None:
    get = record.get
    there = (
        get("status"), get("lane"), get("target"), get("key", ""), get("rank"), get("attempt"), get("max"),
        get("token", ""), get("suspect", ""), get("stalls", "0"), get("cancel", ""), get("reason", ""),
        get("previous", "0"), get("callback", ""), get("callback_id", ""), get("replay", ""),
        get("expires", "0"), get("parked", ""), get("elsewhere", ""),
    )  # fmt: skip
    right = (
        job.status, job.lane, job.target, job.key, str(job.rank), str(job.attempt), str(job.max_attempts),
        job.token, "1" if job.suspect else "", str(job.stalls), job.cancel, job.reason,
        str(job.previous_ms), job.callback, job.callback_id, job.replay,
        str(job.expires_ms), job.parked, "1" if job.within_ms else "",
    )  # fmt: skip
    if there != right:
        raise Broken(f"{job.job_id} is stored as {there}, it is {right}")


def _check_place(model: Model, job: Job, places: list[tuple[str, int]]) -> None:
    if job.status == "pending":
        right = [(pending_place(model, job), job.rank)]
    else:
        name, score = PLACES[job.status]
        right = [(name, getattr(job, score))]
    if places != right:
        raise Broken(f"{job.job_id} ({job.status}) is in {places}, it must be in {right}")


def pending_place(model: Model, job: Job) -> str:
    """The ZSET in which a pending job waits."""
    if not job.plain:
        return f"flow:{job.lane}:{job.target}:{job.key}"
    return f"suspect:{job.lane}" if job.suspect else f"lane:{job.lane}"


def check_dead(model: Model, snapshot: Snapshot) -> None:
    """Each target's own index of its dead jobs agrees with the one of all."""
    own: dict[str, dict[str, int]] = {}
    for job in model.with_status("dead"):
        own.setdefault(f"dead:{job.target}", {})[job.job_id] = job.finished_ms
    there = {name: members for name, members in snapshot.zsets.items() if name.startswith("dead:")}
    if there != own:
        raise Broken(f"dead jobs by target are {there}, they must be {own}")


def check_suspects(model: Model, snapshot: Snapshot) -> None:
    """The reference to a lane's suspects stands at the first of them."""
    for lane in model.lanes:
        suspects = snapshot.zset(f"suspect:{lane}")
        there, right = snapshot.zset(f"lane:{lane}").get("!"), min(suspects.values(), default=None)
        if there != right:
            raise Broken(f"the suspects of {lane} begin at {right}, their reference stands at {there}")


def check_counters(model: Model, snapshot: Snapshot) -> None:
    """Statistics and waiting counters are exact."""
    waiting: Counter[str] = Counter()
    for job in model.with_status("pending"):
        if job.lane in model.lane_caps:
            waiting[job.lane] += 1
        waiting[f"{job.lane}:{job.target}"] += 1
    states = Counter(
        f"{job.status}:{job.lane}" for status in ("scheduled", "retrying", "dead") for job in model.with_status(status)
    )
    for name, right in (("waiting", waiting), ("states", states), ("stats", model.stats)):
        there = {field: int(value) for field, value in snapshot.hash(name).items()}
        if there != dict(right):
            wrong = {k: (there.get(k), right[k]) for k in there | right if there.get(k) != right[k]}
            raise Broken(f"{name} is wrong where: {wrong}")


def check_leaks(model: Model, snapshot: Snapshot) -> None:
    """No key lives on without a reason."""
    for name in (*snapshot.hashes, *snapshot.zsets, *snapshot.strings):
        family, _, rest = name.partition(":")
        if name not in KEPT and family not in FAMILIES:
            raise Broken(f"an unknown key: {name}")
        if family in "jbre" and rest not in model.jobs:
            raise Broken(f"{name} is left of a job that is gone")
        if family == "idem" and model.idempotent[rest][2] < model.now_ms:
            raise Broken(f"{name} is past its window")
        if family in ("lane", "suspect", "flow", "flows", "ring", "heads") and rest.split(":")[0] not in model.lanes:
            raise Broken(f"{name} is of an unknown lane")
        if family == "ft" and rest not in model.targets:
            raise Broken(f"{name} is of a target without flows")
    if left := snapshot.hash("state").keys() - model.jobs.keys() - {"~"}:
        raise Broken(f"lines left of jobs that are gone: {left}")
    missing = [job_id for job_id in model.jobs if f"b:{job_id}" not in snapshot.strings]
    if missing:
        raise Broken(f"jobs without a body: {missing}")

"""What a body may say in more than one way: target, lane and priority, start, attempts, retry policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.backoff import RetryPolicy
from gateway.durations import MAX_S
from gateway.spelling import mend_name
from gateway.submission.body import SubmitBody
from gateway.submission.catalog import TargetFacts
from gateway.submission.faults import Faults
from gateway.submission.instants import read_instant

_TURNS = ("lane", "priority", "delay", "run_at", "run_after", "scheduled_at")
"""What decides when a job's turn comes."""


def choose_target(body: SubmitBody, targets: Mapping[str, TargetFacts], faults: Faults) -> TargetFacts | None:
    """The target that the body names, by `target` or its older name `type`."""
    name = body.target if body.type is None else _one_of(body, ("target", "type"), faults)
    if name is None:
        if not faults.touch("/target") and not faults.touch("/type"):
            faults.add("/target", "is missing; name what is to run")
        return None
    found = targets.get(name)
    if found is None:
        pointer = "/target" if body.target is not None else "/type"
        faults.add_unknown_target(pointer, f"no target named {name[:64]!r}; {mend_name(name[:64], sorted(targets))}")
    return found


def choose_lane(body: SubmitBody, lanes: Sequence[str], faults: Faults) -> tuple[str | None, int | None]:
    """The lane and the priority, None where the body says nothing; a string in `priority` is a lane's name."""
    lane, priority = body.lane, body.priority
    pointer = "/lane"
    if isinstance(priority, str):
        if lane is not None and lane != priority:
            faults.add("/priority", f"names the lane {priority[:64]!r}, and lane says {lane[:64]!r}; give one of them")
        elif lane is None:
            lane, pointer = priority, "/priority"
        priority = None
    if lane is not None and lane not in lanes:
        number = " or a number from -100 to 100" if pointer == "/priority" else ""
        faults.add(pointer, f"no lane named {lane[:64]!r}; {mend_name(lane[:64], lanes)}{number}")
    return lane, priority


def choose_start(body: SubmitBody, faults: Faults, *, now_s: float) -> tuple[int, float | None]:
    """How long the job waits, in ms (0 for a time that is past), and the Unix time that was asked for, if any."""
    if body.run_at is None and body.run_after is None and body.scheduled_at is None:
        return 0 if body.delay is None else round(body.delay * 1000), None
    at = _one_of(body, ("run_at", "run_after", "scheduled_at"), faults)
    pointer = next((f"/{name}" for name in ("run_at", "run_after", "scheduled_at") if getattr(body, name) == at), "")
    if body.delay is not None:
        faults.add("/delay", f"cannot be given beside {pointer[1:]}; give one of them")
        return round(body.delay * 1000), None
    at_s = read_instant(at, pointer, faults)
    if at_s is None:
        return 0, None
    if at_s - now_s > MAX_S:
        faults.add(pointer, "lies more than ten years ahead")
    return max(0, round((at_s - now_s) * 1000)), at_s


def check_order(body: SubmitBody, target: TargetFacts | None, faults: Faults) -> None:
    """Adds a fault for all that would have a job of an ordered target overtake others, or be overtaken."""
    for name in _TURNS if target is not None and target.ordered else ():
        if getattr(body, name) is not None and not faults.touch(f"/{name}"):
            mend = "set it on the target" if name == "lane" else "leave it out"
            faults.add(f"/{name}", f"jobs of an ordered target run in the order in which they came; {mend}")


def choose_attempts(body: SubmitBody, faults: Faults) -> int | None:
    """How often the job is tried; an older client's `max_retries: 0` is one attempt."""
    if body.max_attempts is None and body.max_retries is None:
        return None
    attempts: int = _one_of(body, ("max_attempts", "max_retries"), faults)
    if body.retry is not None and body.retry.max_attempts is not None:
        faults.add("/retry/max_attempts", "cannot be given beside max_attempts; give one of them")
    return max(1, attempts)


def choose_retry(body: SubmitBody, target: TargetFacts | None, faults: Faults) -> RetryPolicy | None:
    """The target's policy with what the body overrides in it, None where that is nothing."""
    if body.retry is None:
        return None
    try:
        return body.retry.over(RetryPolicy() if target is None else target.retry)
    except ValueError as exc:
        if target is not None:
            faults.add("/retry", f"{exc} (what is left out comes from the target)")
        return None


def _one_of(body: SubmitBody, names: Sequence[str], faults: Faults) -> Any:
    """The value of the one of several names that the body uses, of which there is one; more than one is a fault."""
    given = [name for name in names if getattr(body, name) is not None]
    for extra in given[1:]:
        faults.add(f"/{extra}", f"says the same as {given[0]}; give one of them")
    return getattr(body, given[0]) if given else None

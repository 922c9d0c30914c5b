"""Schedules as clients and the configuration file write them, checked against what is installed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gateway.backoff import RetryPolicy
from gateway.keys import NAME
from gateway.schedules import JobFacts, Schedule, ScheduleBody, catch_up_most, find_zone, parse_cron
from gateway.schedules.definition import MAX_JITTER_S, MAX_PAYLOAD, make_schedule
from gateway.submission.body import SubmitBody
from gateway.submission.catalog import TargetFacts
from gateway.submission.checks import check_fields
from gateway.submission.choices import check_order, choose_lane, choose_target
from gateway.submission.decoding import decode_struct
from gateway.submission.faults import Faults


def parse_schedule(text: bytes, name: str, *, targets: Mapping[str, TargetFacts], lanes: Sequence[str]) -> Schedule:
    """The schedule that the body of a PUT describes; `text` has passed `check_text`.

    Raises InvalidRequest (400: no JSON, 422: with every fault), or NotFound if all that is wrong is the target.
    """
    faults = Faults()
    if NAME.match(name) is None:
        faults.add("/name", "is not a name; use up to 64 letters, digits, dots, dashes and underscores in the path")
    body = decode_struct(text, ScheduleBody, faults)
    check_schedule(body, targets=targets, lanes=lanes, faults=faults)
    faults.raise_any()
    return make_schedule(name, body, "api")


def check_schedule(
    body: ScheduleBody, *, targets: Mapping[str, TargetFacts], lanes: Sequence[str], faults: Faults
) -> None:
    """Adds a fault for every field that is missing or wrong."""
    _check_timing(body, faults)
    as_job = SubmitBody(
        target=body.target,
        payload=body.payload,
        lane=body.lane,
        priority=body.priority,
        key=body.key,
        timeout=body.timeout,
        tags=body.tags,
    )
    target = choose_target(as_job, targets, faults)
    choose_lane(as_job, lanes, faults)
    check_order(as_job, target, faults)
    check_fields(as_job, faults)
    if (size := len(bytes(body.payload))) > MAX_PAYLOAD:
        faults.add("/payload", f"is {size} bytes long; at most {MAX_PAYLOAD} are allowed in a schedule")


def job_facts(schedule: Schedule, targets: Mapping[str, TargetFacts], default_lane: str) -> JobFacts:
    """What its jobs take from the target; where that is gone they are made all the same, and die of `no_target`."""
    target = targets.get(schedule.target)
    retry = target.retry if target else RetryPolicy()
    lane = schedule.lane or (target and target.lane) or default_lane
    return JobFacts(lane, schedule.max_attempts or retry.max_attempts, target.callback if target else None)


def _check_timing(body: ScheduleBody, faults: Faults) -> None:
    zone = "UTC" if body.timezone is None else body.timezone
    known = body.timezone is None or _passes(lambda: find_zone(zone), "/timezone", faults)
    if body.cron is not None:
        cron = body.cron
        _passes(lambda: parse_cron(cron, zone if known else "UTC").after(0), "/cron", faults)
    elif not faults.touch("/cron"):
        faults.add("/cron", 'is missing; write when it fires, such as "30 2 * * *"')
    if body.jitter is not None and body.jitter > MAX_JITTER_S:
        faults.add("/jitter", "must lie between 0s and 24h")
    if body.catch_up is not None:
        policy = body.catch_up
        _passes(lambda: catch_up_most(policy), "/catch_up", faults)


def _passes(check: Callable[[], object], pointer: str, faults: Faults) -> bool:
    try:
        check()
    except ValueError as exc:
        faults.add(pointer, str(exc))
        return False
    return True

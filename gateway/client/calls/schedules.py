"""Schedules."""

from __future__ import annotations

from typing import Any

from gateway.client.answers import Accepted, ScheduleRecord, ScheduleSummary
from gateway.client.bodies import ScheduleBody, encode
from gateway.client.call import Call, Listing, answer, nothing, path


def list_schedules(page_size: int) -> Listing[ScheduleSummary]:
    """Every schedule, by name."""
    first = Call(method="GET", path="/schedules", read=answer(dict[str, Any]), query={"limit": str(page_size)})
    return Listing(first, "schedules", ScheduleSummary)


def get_schedule(name: str) -> Call[ScheduleRecord]:
    """One schedule with its payload, when it fires next, and what came of it."""
    return Call(method="GET", path=path("schedules", name), read=answer(ScheduleRecord))


def put_schedule(name: str, body: ScheduleBody) -> Call[ScheduleRecord]:
    """Makes a schedule, or replaces it."""
    return Call(method="PUT", path=path("schedules", name), read=answer(ScheduleRecord), content=encode(body))


def delete_schedule(name: str) -> Call[None]:
    """Takes a schedule away; its jobs stay."""
    return Call(method="DELETE", path=path("schedules", name), read=nothing, repeat="unsent")


def pause_schedule(name: str) -> Call[ScheduleRecord]:
    """Lets no slot of it fire."""
    return Call(method="POST", path=path("schedules", name, "pause"), read=answer(ScheduleRecord))


def resume_schedule(name: str) -> Call[ScheduleRecord]:
    """Lets it go on."""
    return Call(method="POST", path=path("schedules", name, "resume"), read=answer(ScheduleRecord))


def run_schedule(name: str) -> Call[Accepted]:
    """Makes a job of it now."""
    return Call(method="POST", path=path("schedules", name, "run"), read=answer(Accepted), repeat="unsent")

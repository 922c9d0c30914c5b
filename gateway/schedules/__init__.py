"""Schedules: cron expressions that submit jobs. All of it is pure: time comes in, decisions go out."""

from __future__ import annotations

from gateway.schedules.cron import MACROS, Cron, parse_cron
from gateway.schedules.definition import JobFacts, Overlap, Schedule, ScheduleBody, Source, catch_up_most
from gateway.schedules.plan import Plan, Slot, first_slot, plan
from gateway.schedules.zones import find_zone

__all__ = [
    "MACROS",
    "Cron",
    "JobFacts",
    "Overlap",
    "Plan",
    "Schedule",
    "ScheduleBody",
    "Slot",
    "Source",
    "catch_up_most",
    "find_zone",
    "first_slot",
    "parse_cron",
    "plan",
]

"""Schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gateway.client.answers.jobs import StatusOrGone
from gateway.client.answers.problems import Answer
from gateway.schedules import Overlap, Source


class LastRun(Answer, frozen=True, kw_only=True):
    """The last job of a schedule, and the instant that it was made for."""

    job_id: str
    status: StatusOrGone
    run_at: datetime


class ScheduleSummary(Answer, frozen=True, kw_only=True):
    """A schedule as it stands; `missed` are slots given up, `overlapped` those that an unfinished job stood in."""

    name: str
    cron: str
    timezone: str
    target: str
    priority: int
    catch_up: str
    overlap: Overlap
    source: Source
    paused: bool
    fired: int
    missed: int
    overlapped: int
    created_at: datetime
    updated_at: datetime
    next_run_at: datetime | None = None
    last: LastRun | None = None
    lane: str | None = None
    key: str | None = None
    jitter: float | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    tags: list[str] = []


class ScheduleRecord(ScheduleSummary, frozen=True, kw_only=True):
    """A schedule with its payload."""

    payload: Any = None


class SchedulePage(Answer, frozen=True, kw_only=True):
    """A page of schedules by name."""

    schedules: list[ScheduleSummary]
    next_cursor: str | None = None

"""The dead-letter queue: replays and purges."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from gateway.api.models.problems import Model
from gateway.jobs import Reason


class ReplayStarted(Model):
    """A bulk replay that dispatchers carry on."""

    replay_id: str
    state: Literal["running"]


class ReplayWanted(Model):
    """Which dead jobs a bulk replay is for."""

    target: str | None = None
    reason: Reason | None = None
    dead_after: datetime | None = None
    dead_before: datetime | None = None


class ReplayChanges(Model):
    """What its jobs have instead of what they had."""

    max_attempts: int


class ReplayState(Model):
    """How far a bulk replay is: dead jobs that matched so far, those sent back, those that were dead no longer."""

    replay_id: str
    state: Literal["running", "done", "stopped"]
    matched: int
    replayed: int
    skipped: int
    filter: ReplayWanted
    rate: str
    created_at: datetime
    updated_at: datetime
    limit: int | None = None
    overrides: ReplayChanges | None = None


class Purged(Model):
    """How many dead jobs went, and where to go on; `next_cursor` is null at the end."""

    purged: int
    next_cursor: str | None

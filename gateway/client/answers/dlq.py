"""The dead-letter queue: replays and purges."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from gateway.client.answers.problems import Answer
from gateway.jobs import Reason


class ReplayStarted(Answer, frozen=True, kw_only=True):
    """A bulk replay that dispatchers carry on."""

    replay_id: str
    state: Literal["running"]


class ReplayWanted(Answer, frozen=True, kw_only=True):
    """Which dead jobs a bulk replay is for."""

    target: str | None = None
    reason: Reason | None = None
    dead_after: datetime | None = None
    dead_before: datetime | None = None


class ReplayChanges(Answer, frozen=True, kw_only=True):
    """What its jobs have instead of what they had."""

    max_attempts: int


class ReplayState(Answer, frozen=True, kw_only=True):
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


class Purged(Answer, frozen=True, kw_only=True):
    """How many dead jobs went, and where to go on."""

    purged: int
    next_cursor: str | None = None

"""Triggers and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gateway.client.answers.problems import Answer
from gateway.schedules import Source


class TriggerShown(Answer, frozen=True, kw_only=True):
    """A trigger without its secrets, which are only counted; `fault` says why one cannot be used any more, `warning`
    what keeps its deliveries from verifying."""

    name: str
    source: Source
    path: str = ""
    url: str = ""
    verifier: str = ""
    routes: list[dict[str, Any]] = []
    secrets: int = 0
    config: dict[str, Any] = {}
    content: str | None = None
    body_limit: int | None = None
    allow_from: list[str] = []
    limit: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    sync: bool = False
    sync_timeout: float = 0.0
    deliveries: dict[str, Any] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None
    fault: str = ""
    warning: str = ""


class Triggers(Answer, frozen=True, kw_only=True):
    """The triggers, by name."""

    triggers: list[TriggerShown]


class DeliveryJob(Answer, frozen=True, kw_only=True):
    """A job that a delivery became."""

    job_id: str
    target: str


class DeliveryAnswer(Answer, frozen=True, kw_only=True):
    """The delivery's jobs, none where no route matches; the first ones where it was a repeat."""

    jobs: list[DeliveryJob]
    duplicate: bool


class DeliverySummary(Answer, frozen=True, kw_only=True):
    """A request that came to a trigger, or a delivery that was replayed (`replay_of`), and what became of it."""

    id: str
    at: datetime
    verdict: str
    method: str
    path: str
    bytes: int
    jobs: list[DeliveryJob]
    event: str = ""
    reason: str = ""
    sender: str = ""
    replay_of: str = ""


class DeliveryShown(DeliverySummary, frozen=True, kw_only=True):
    """With its headers, less what proves who sent it, and its body, if that was kept."""

    headers: list[tuple[str, str]] = []
    body_kept: bool = False
    body: str | None = None
    body_base64: str | None = None


class DeliveryPage(Answer, frozen=True, kw_only=True):
    """A page, the newest first."""

    deliveries: list[DeliverySummary]
    next_cursor: str | None = None

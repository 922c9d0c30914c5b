"""Triggers and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from gateway.api.models.problems import Model
from gateway.deliveries import Verdict
from gateway.settings import RouteSettings


class DeliveryJob(Model):
    """A job that a delivery became."""

    job_id: str
    target: str


class DeliveryAnswer(Model):
    """The delivery's jobs, none where no route matches; the first ones where it was a repeat."""

    jobs: list[DeliveryJob]
    duplicate: bool


class TriggerBody(msgspec.Struct):
    """A trigger as `[triggers.<name>]` has it; the verifier's own keys stand beside these. Secrets are literal."""

    verifier: str
    routes: list[RouteSettings]
    secrets: list[str] = []


class TriggerShown(Model):
    """A trigger without its secrets, which are only counted; `fault` says why one cannot be used any more, `warning`
    what keeps its deliveries from verifying."""

    name: str
    source: Literal["file", "api"]
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


class Triggers(Model):
    """The triggers, by name."""

    triggers: list[TriggerShown]


class DeliverySummary(Model):
    """A request that came to a trigger, or a delivery that was replayed (`replay_of`), and what became of it."""

    id: str
    at: datetime
    verdict: Verdict
    method: str
    path: str
    bytes: int
    jobs: list[DeliveryJob]
    event: str = ""
    reason: str = ""
    sender: str = ""
    replay_of: str = ""


class DeliveryShown(DeliverySummary):
    """With its headers, less what proves who sent it, and its body, if that was kept."""

    headers: list[tuple[str, str]] = []
    body_kept: bool = False
    body: str | None = None
    body_base64: str | None = None


class DeliveryPage(Model):
    """A page, the newest first; `next_cursor` asks for the next one, and is null on the last."""

    deliveries: list[DeliverySummary]
    next_cursor: str | None

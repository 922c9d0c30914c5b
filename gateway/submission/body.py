"""The body of `POST /jobs` as it is written: every field, older names included, `null` the same as left out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.backoff import Attempts, RetryOverride
from gateway.durations import Duration
from gateway.jobs import NULL, Callback

Instant = Annotated[datetime, Meta(tz=True)] | int | float
"""RFC 3339 with an offset, or Unix seconds, as older clients send them."""

__all__ = ["Attempts", "Instant", "RetryOverride", "SubmitBody"]


class SubmitBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job as it is submitted. `type`, `run_after`, `scheduled_at` and `max_retries` are older names of `target`,
    `run_at` and `max_attempts`; a string in `priority` names the lane; the bytes of `payload` are kept as they are.

    `url` stands instead of a target; `headers`, `method`, `path` and `query` are for HTTP targets that allow them."""

    target: str | None = None
    type: str | None = None
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)
    lane: str | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] | str | None = None
    run_at: Instant | None = None
    run_after: Instant | None = None
    scheduled_at: Instant | None = None
    delay: Duration | None = None
    expires_in: Duration | None = None
    max_attempts: Attempts | None = None
    max_retries: Annotated[int, Meta(ge=0, le=1000)] | None = None
    timeout: Duration | None = None
    retry: RetryOverride | None = None
    key: str | None = None
    idempotency_key: str | None = None
    callback: Callback | None = None
    tags: tuple[str, ...] | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    method: str | None = None
    path: str | None = None
    query: dict[str, str] | None = None

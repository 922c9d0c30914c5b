"""What callers write, as JSON: options with their types, durations and times as Python has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict

import msgspec

from gateway.backoff import Policy
from gateway.jobs import CallbackEvent, Reason
from gateway.schedules import Overlap

Span = str | float | timedelta
"""A duration: `"10m"`, seconds, or a timedelta."""


class RetryOptions(TypedDict, total=False):
    """What differs from the target's retry policy."""

    policy: Policy
    max_attempts: int
    base: Span
    cap: Span


class CallbackOptions(TypedDict, total=False):
    """Where the job's end is to be told, and of which ends."""

    url: Required[str]
    events: Sequence[CallbackEvent]
    secret: str
    retry: RetryOptions


class JobOptions(TypedDict, total=False):
    """How a job is to run; docs/api.md says what each means."""

    lane: str
    priority: int
    run_at: datetime | float
    delay: Span
    expires_in: Span
    max_attempts: int
    timeout: Span
    retry: RetryOptions
    key: str
    idempotency_key: str
    callback: CallbackOptions
    tags: Sequence[str]
    headers: Mapping[str, str]
    method: str
    path: str
    query: Mapping[str, str]


class JobBody(JobOptions, total=False):
    """A job of a batch."""

    target: Required[str]
    payload: Any


class ScheduleBody(TypedDict, total=False):
    """A schedule as it is to be; docs/schedules.md says what each means."""

    cron: Required[str]
    target: Required[str]
    timezone: str
    payload: Any
    lane: str
    priority: int
    key: str
    jitter: Span
    catch_up: str
    overlap: Overlap
    paused: bool
    max_attempts: int
    timeout: Span
    tags: Sequence[str]


class DeadFilter(TypedDict, total=False):
    """Which dead jobs; what is left out does not matter, and times are of their death, both included."""

    target: str
    reason: Reason | Literal["exhausted", "fatal", "expired", "stalled", "no_target"]
    dead_after: datetime | float
    dead_before: datetime | float


def encode(fields: Mapping[str, Any]) -> bytes:
    """The fields as JSON; a `msgspec.Raw` goes out byte for byte.

    Raises TypeError for what JSON cannot hold, and ValueError for nan and inf, which would arrive as null.
    """
    plain = {name: value if name == "payload" else _plain(value) for name, value in fields.items()}
    text = msgspec.json.encode(plain, enc_hook=_other)
    if b"null" in text:
        _refuse_nan(plain, "")
    _refuse_bytes(fields.get("payload"))
    return text


def _plain(value: Any) -> Any:
    """An option as the API reads it: timedeltas as seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def _other(value: Any) -> Any:
    """What msgspec does not know: pydantic's models say themselves what they are as JSON."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def _refuse_bytes(payload: Any) -> None:
    if isinstance(payload, (bytes, bytearray, memoryview)):
        raise TypeError("a payload of bytes: wrap JSON text in msgspec.Raw(…), or encode the bytes as a string")


def _refuse_nan(value: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place or 'the value'} is {value}, which JSON cannot hold")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _refuse_nan(inner, f"{place}/{name}")
    elif isinstance(value, (list, tuple)):
        for at, inner in enumerate(value):
            _refuse_nan(inner, f"{place}/{at}")

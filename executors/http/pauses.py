"""How long an answer asks to be left alone: `Retry-After`, else the reset of a rate limit."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gateway import HttpResponse

MAX_PAUSE_S = 3600.0
"""A pause that a target asks for counts up to here: no answer may park a job for good."""

EPOCH_S = 1_000_000_000
"""A reset above this is a time (Unix seconds), as many send it, and not a number of seconds."""

_LIMITING = (429, 503)
_RESET_NAMES = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")
_RESET_ITEM = re.compile(r"(?:^|[;,\s])t=(\d+)(?=$|[;,\s])", re.ASCII)


def asked_pause_s(response: HttpResponse, now_s: float) -> float | None:
    """Seconds that the target wants to pass before the next attempt, 0 to an hour; None if it does not say.

    `Retry-After` in both forms (RFC 9110, 10.2.3). Where there is none, and the answer is 429 or 503: when the quota
    is whole again, by `RateLimit-Reset` or the `t` of `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
    """
    pause_s = _retry_after_s(response.header("retry-after") or "", now_s)
    if pause_s is None and response.status in _LIMITING:
        pause_s = _reset_s(response, now_s)
    return None if pause_s is None else min(max(0.0, pause_s), MAX_PAUSE_S)


def _retry_after_s(value: str, now_s: float) -> float | None:
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return (date - datetime.fromtimestamp(now_s, UTC)).total_seconds()


def _reset_s(response: HttpResponse, now_s: float) -> float | None:
    for name in _RESET_NAMES:
        value = (response.header(name) or "").strip()
        if value.isascii() and value.isdigit():
            seconds = float(value)
            return seconds - now_s if seconds > EPOCH_S else seconds
    found = _RESET_ITEM.findall(response.header("ratelimit") or "")
    return max(map(float, found)) if found else None

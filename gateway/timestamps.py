"""Times as the API and callbacks write them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds, of Unix milliseconds."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"

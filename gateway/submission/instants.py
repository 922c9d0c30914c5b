"""Instants: RFC 3339, or Unix seconds where older clients send them."""

from __future__ import annotations

from datetime import datetime

from gateway.submission.faults import Faults

_LAST_S = 253402300799
"""The end of the year 9999 in Unix seconds."""


def read_instant(at: datetime | float, pointer: str, faults: Faults) -> float | None:
    """The instant in Unix seconds; None, and a fault at `pointer`, if it lies before 1970 or after the year 9999."""
    seconds = at.timestamp() if isinstance(at, datetime) else at
    if not 0 <= seconds <= _LAST_S:
        numeric = "is not a time in Unix seconds (are these milliseconds?); RFC 3339 is safer"
        faults.add(pointer, "lies before 1970 or after 9999" if isinstance(at, datetime) else numeric)
        return None
    # only now a float, which an integer of 400 digits cannot become
    return float(seconds)

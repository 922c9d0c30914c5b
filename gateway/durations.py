"""Durations: `"250ms"`, `"1.5s"`, `"10m"`, `"2h"`, `"7d"`, or a number of seconds."""

from __future__ import annotations

import math
import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z", re.ASCII)
MAX_S = 10 * 366 * 86400.0
"""Ten years: longer than anything here is kept, and far below what a 53-bit microsecond clock holds."""


class Duration(float):
    """Seconds, as a field type of a configuration model; read from `"10m"` or a number."""


def parse_duration(value: object) -> Duration:
    """Seconds from `"10m"` or a number; raises ValueError on anything else, a negative or an over-long one."""
    if isinstance(value, str):
        found = _PATTERN.match(value)
        if found is None:
            raise ValueError(f'not a duration: {value[:40]!r}; write "250ms", "1.5s", "10m", "2h", "7d" or seconds')
        seconds = float(found[1]) * _UNITS[found[2]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value) if abs(value) <= MAX_S else math.inf
    else:
        raise ValueError('not a duration; write "1.5s", "10m", "2h" or seconds as a number')
    if not math.isfinite(seconds) or seconds < 0 or seconds > MAX_S:
        raise ValueError("a duration lies between 0 and ten years")
    return Duration(seconds)


def roughly(seconds: float) -> str:
    """A duration to two digits, in the unit that suits it: `16s`, `2.9m`, `25h`."""
    unit, size = next((each for each in _LARGE if seconds >= 2 * each[1]), ("s", 1))
    return f"{float(f'{seconds / size:.2g}'):g}{unit}"


_LARGE = (("d", 86400), ("h", 3600), ("m", 60))

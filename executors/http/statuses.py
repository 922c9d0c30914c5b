"""Sets of HTTP statuses as they are configured: `204`, `"2xx"`, `"500-504"`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_CLASS = re.compile(r"([1-5])xx\Z")
_RANGE = re.compile(r"(\d{3})-(\d{3})\Z", re.ASCII)
_FORMS = 'write 204, "2xx" or "500-504", between 200 and 599'

DEFAULT_SUCCESS = ("2xx",)
DEFAULT_RETRY = (408, 425, 429, "5xx")


@lru_cache(maxsize=1024)
def parse_statuses(entries: tuple[int | str, ...]) -> frozenset[int]:
    """The statuses of all entries; ValueError says which entry is none, and how to write it."""
    return frozenset(status for entry in entries for status in _statuses(entry))


def _statuses(entry: int | str) -> Sequence[int]:
    if isinstance(entry, int):
        found: Sequence[int] = (entry,)
    elif match := _CLASS.match(entry):
        found = range(int(match[1]) * 100, int(match[1]) * 100 + 100)
    elif match := _RANGE.match(entry):
        found = range(int(match[1]), int(match[2]) + 1)
    else:
        raise ValueError(f"not a status: {entry!r}; {_FORMS}")
    if not found or found[0] < 200 or found[-1] > 599:
        raise ValueError(f"no answers have the status {entry!r}; {_FORMS}")
    return found

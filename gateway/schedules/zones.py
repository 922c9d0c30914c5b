"""Time zones by name, and when their offset from UTC changes."""

from __future__ import annotations

import difflib
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

_DAY_S = 86400


def find_zone(name: str) -> tzinfo:
    """The zone of an IANA name; ValueError with the nearest names if there is none. UTC needs no tz database."""
    if name == "UTC":
        return UTC
    if name not in _names():
        near = difflib.get_close_matches(name, _names(), n=3) or _in_another_case(name)
        mend = f"did you mean {', '.join(near)}?" if near else 'write an IANA name, such as "Europe/Berlin"'
        raise ValueError(f"no time zone named {name[:64]!r}; {mend}")
    return zoneinfo.ZoneInfo(name)


class WallClock:
    """What clocks show in a zone. Instants are Unix seconds; a local time is the number of seconds that an instant
    would have, did the zone lie on UTC."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def offset_s(self, at_s: int) -> int:
        """Seconds ahead of UTC at an instant."""
        if self._zone is UTC:
            return 0
        return _seconds(datetime.fromtimestamp(at_s, self._zone).utcoffset())

    def instant(self, local_s: int) -> int:
        """When clocks show a local time: the first time if they do so twice; if they skip it, the end of the gap."""
        if self._zone is UTC:
            return local_s
        shown = (_EPOCH + timedelta(seconds=local_s)).replace(tzinfo=self._zone)
        before_s = _seconds(shown.utcoffset())
        at_s = local_s - before_s
        gap_s = self.offset_s(at_s) - before_s
        if gap_s <= 0:
            return at_s
        change_s = self.next_change(at_s - gap_s, at_s)
        return at_s if change_s is None else change_s

    def next_change(self, from_s: int, to_s: int) -> int | None:
        """The first instant in (from_s, to_s] at which the offset is another one; None if there is none."""
        if self._zone is UTC:
            return None
        offset_s, low = self.offset_s(from_s), from_s
        while low < to_s:
            high = min(low + _DAY_S, to_s)
            if self.offset_s(high) != offset_s:
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self.offset_s(middle) == offset_s else (low, middle)
                return high
            low = high
        return None


_EPOCH = datetime(1970, 1, 1)  # naive on purpose: a local time


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return int(offset.total_seconds())


@cache
def _names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - {"localtime"})  # which is another one on each machine


def _in_another_case(name: str) -> list[str]:
    return [known for known in _names() if known.lower() == name.lower()]

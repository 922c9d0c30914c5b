"""Cron expressions, and the instants at which they hold by the wall clock of a zone, over both DST changes.

cronsim reads an expression and walks the calendar; the clock changes are decided here, by Debian cron's rule:

- where minute and hour are both set (neither begins with `*`), the expression names times of day. A time that clocks
  skip fires at the end of the gap, once for all that lie in it; one that they show twice fires the first time.
- else it names intervals: it holds whenever clocks show what it asks for, never in a gap and twice in a repeated hour.

Seconds, where there are any, count from each minute at which the other five fields fire.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from gateway.schedules.zones import WallClock, find_zone

MAX_LENGTH = 200
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_EPOCH = datetime(1970, 1, 1)  # naive on purpose: the calendar is walked in local time
_FORMS = 'write five fields ("30 2 * * *": minute, hour, day, month, weekday), six with seconds first, or a macro'
_NEVER = "no month that it names has such a day"
_POINT = re.compile(r"\b([0-9A-Z]+)-\1/(?=0*[1-9])[0-9]+", re.ASCII | re.IGNORECASE)
"""A range of one with a step (`5-5/10`): cronsim takes it for what begins there (`5/10`)."""

_TAKES = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT, 5L or 5#2",
}


class Cron:
    """An expression in a time zone; instants are Unix seconds. Made by `parse_cron`."""

    def __init__(self, fields: list[str], clock: WallClock) -> None:
        minute, hour = fields[-5], fields[-4]
        self._minutes = CronSim(" ".join(fields[-5:]), _EPOCH)
        self._seconds = sorted(CronSim(" ".join(fields), _EPOCH).seconds)
        self._names_times = not minute.startswith("*") and not hour.startswith("*")
        self._clock = clock

    def after(self, at_s: int) -> int:
        """The first instant after `at_s`; ValueError if there is none within fifty years."""
        return next(self.since(at_s + 1))

    def since(self, from_s: int) -> Iterator[int]:
        """Every instant from `from_s` on, in order."""
        minute_s = self._minute_after(from_s // 60 * 60 - 1)
        while True:
            for second in self._seconds:
                if minute_s + second >= from_s:
                    yield minute_s + second
            minute_s = self._minute_after(minute_s)

    def _minute_after(self, at_s: int) -> int:
        return self._time_after(at_s) if self._names_times else self._interval_after(at_s)

    def _time_after(self, at_s: int) -> int:
        local_s = at_s + self._clock.offset_s(at_s)
        while True:
            local_s = self._local_after(local_s)
            found_s = self._clock.instant(local_s)
            if found_s > at_s:
                return found_s

    def _interval_after(self, at_s: int) -> int:
        """Looks in each stretch of one offset in turn, so that a repeated hour is walked twice and a gap never."""
        offset_s = self._clock.offset_s(at_s)
        local_s = at_s + offset_s
        while True:
            found_s = self._local_after(local_s) - offset_s
            change_s = self._clock.next_change(at_s, found_s)
            if change_s is None:
                return found_s
            at_s, offset_s = change_s, self._clock.offset_s(change_s)
            local_s = at_s + offset_s - 1

    def _local_after(self, local_s: int) -> int:
        self._minutes.dt = _EPOCH + timedelta(seconds=local_s)
        try:
            return (next(self._minutes) - _EPOCH) // timedelta(seconds=1)
        except StopIteration as exc:
            raise ValueError(f"never comes: {_NEVER}") from exc


@lru_cache(maxsize=1024)
def parse_cron(expression: str, timezone: str = "UTC") -> Cron:
    """The expression in a zone; ValueError says what is wrong with either (the zone is looked at first)."""
    clock = WallClock(find_zone(timezone))
    if len(expression) > MAX_LENGTH:
        raise ValueError(f"is {len(expression)} characters long; at most {MAX_LENGTH} are allowed")
    fields = _fields(expression)
    if len(fields) not in (5, 6):
        raise ValueError(f"{expression!r} has {len(fields)} fields; {_FORMS}")
    try:
        return Cron(fields, clock)
    except CronSimError as exc:
        name = str(exc).removeprefix("Bad ")
        if name == "day-of-month" and _holds_in_any_month(fields):
            raise ValueError(f"{expression!r} never comes: {_NEVER}") from exc
        takes = f"{_TAKES.get(name, 'numbers')}, as *, lists (1,2), ranges (1-3) and steps (*/2)"
        raise ValueError(f"{expression!r}: the field {name} is wrong; it takes {takes}") from exc
    except (ValueError, AssertionError) as exc:
        raise ValueError(f"{expression!r} is not a cron expression; {_FORMS}") from exc


def _holds_in_any_month(fields: list[str]) -> bool:
    """Whether the day is one that there is: what refuses it in a month without it says the same of a wrong one."""
    try:
        CronSim(" ".join([*fields[:-2], "*", fields[-1]]), _EPOCH)
    except (CronSimError, ValueError, AssertionError):
        return False
    return True


def _fields(expression: str) -> list[str]:
    text = expression.strip()
    if not text.startswith("@"):
        return _POINT.sub(r"\1", text).split()
    if text.lower() not in MACROS:
        raise ValueError(f"no macro named {text[:64]!r}; known: {', '.join(MACROS)}")
    return MACROS[text.lower()].split()

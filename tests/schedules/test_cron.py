"""Cron expressions against instants worked out by hand, and against a clock walked minute by minute."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest

from gateway.schedules import parse_cron

NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"

QUARTERS = ("00", "15", "30", "45")


def quarters(day: str, *hours: str) -> list[str]:
    return [f"{day}T{hour}:{minute}" for hour in hours for minute in QUARTERS]


# expression, zone, from when on (UTC), the instants that follow (UTC)
EXPECTED: list[tuple[str, str, str, list[str]]] = [
    # 02:30 does not exist on 8 March 2026 in New York: it fires at 03:00 EDT, which is 07:00 UTC
    ("30 2 * * *", NEW_YORK, "2026-03-07", ["2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30"]),
    ("30 2 * * *", NEW_YORK, "2026-10-31", ["2026-10-31T06:30", "2026-11-01T07:30", "2026-11-02T07:30"]),
    ("30 2 * * *", NEW_YORK, "2027-03-13", ["2027-03-13T07:30", "2027-03-14T07:00", "2027-03-15T06:30"]),
    ("30 2 * * *", NEW_YORK, "2027-11-06", ["2027-11-06T06:30", "2027-11-07T07:30", "2027-11-08T07:30"]),
    # 01:30 exists twice on the autumn day: the first one counts
    ("30 1 * * *", NEW_YORK, "2026-10-31", ["2026-10-31T05:30", "2026-11-01T05:30", "2026-11-02T06:30"]),
    ("30 1 * * *", NEW_YORK, "2027-11-06", ["2027-11-06T05:30", "2027-11-07T05:30", "2027-11-08T06:30"]),
    ("30 2 * * *", BERLIN, "2026-03-28", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
    ("30 2 * * *", BERLIN, "2026-10-24", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
    ("30 2 * * *", BERLIN, "2027-03-27", ["2027-03-27T01:30", "2027-03-28T01:00", "2027-03-29T00:30"]),
    ("30 2 * * *", BERLIN, "2027-10-30", ["2027-10-30T00:30", "2027-10-31T00:30", "2027-11-01T01:30"]),
    # two times in one gap are one instant, and so is a time that lies at its end anyway
    ("15,45 2 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:15", "2026-03-30T00:45"]),
    ("0 2-3 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T01:00"]),
    # hourly: every hour that passes
    ("0 * * * *", NEW_YORK, "2026-03-08T05:00", [f"2026-03-08T0{hour}:00" for hour in range(5, 10)]),
    ("0 * * * *", NEW_YORK, "2026-11-01T04:00", [f"2026-11-01T0{hour}:00" for hour in range(4, 9)]),
    ("0 * * * *", BERLIN, "2027-03-27T23:00", ["2027-03-27T23:00", *(f"2027-03-28T0{hour}:00" for hour in range(4))]),
    ("0 * * * *", BERLIN, "2027-10-30T23:00", ["2027-10-30T23:00", *(f"2027-10-31T0{hour}:00" for hour in range(4))]),
    # every 15 minutes: those of the repeated hour twice
    ("*/15 * * * *", BERLIN, "2026-03-29T00:00", quarters("2026-03-29", "00", "01", "02")),
    ("*/15 * * * *", BERLIN, "2026-10-25T00:00", quarters("2026-10-25", "00", "01", "02")),
    ("*/15 * * * *", NEW_YORK, "2027-03-14T06:00", quarters("2027-03-14", "06", "07", "08")),
    ("*/15 * * * *", NEW_YORK, "2027-11-07T05:00", quarters("2027-11-07", "05", "06", "07")),
    # an interval of a skipped hour does not hold that day; of a repeated one it holds twice
    ("*/30 2 * * *", NEW_YORK, "2026-03-07T12:00", ["2026-03-09T06:00", "2026-03-09T06:30"]),
    ("*/30 1 * * *", NEW_YORK, "2026-11-01T00:00", ["2026-11-01T05:00", "2026-11-01T05:30", "2026-11-01T06:00"]),
    ("0 */2 * * *", NEW_YORK, "2026-03-08T05:00", ["2026-03-08T05:00", "2026-03-08T08:00", "2026-03-08T10:00"]),
    # six fields follow the same rule, with their seconds counted from the minute
    ("15 30 2 * * *", BERLIN, "2026-03-28", ["2026-03-28T01:30:15", "2026-03-29T01:00:15", "2026-03-30T00:30:15"]),
    ("0 30 2 * * *", BERLIN, "2026-10-24", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
    ("0,30 30 2 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-29T01:00:30", "2026-03-30T00:30"]),
    ("*/20 0 3 * * *", BERLIN, "2027-03-27T12:00", ["2027-03-28T01:00", "2027-03-28T01:00:20", "2027-03-28T01:00:40"]),
    ("30 0 * * * *", NEW_YORK, "2026-11-01T04:00", [f"2026-11-01T0{hour}:00:30" for hour in range(4, 9)]),
    # other forms
    ("0 9 * * MON-FRI", BERLIN, "2026-03-27T08:00", ["2026-03-27T08:00", "2026-03-30T07:00", "2026-03-31T07:00"]),
    # a range of one has one in it, whatever the step; what begins somewhere goes on
    ("5-5/20 0 * * mon-MON/2", "UTC", "2026-11-24", ["2026-11-30T00:05", "2026-12-07T00:05"]),
    ("5/20 0 * * *", "UTC", "2026-11-24", ["2026-11-24T00:05", "2026-11-24T00:25", "2026-11-24T00:45"]),
    ("0 12 L * *", "UTC", "2027-01-31T12:00", ["2027-01-31T12:00", "2027-02-28T12:00", "2027-03-31T12:00"]),
    ("0 12 LW * *", "UTC", "2027-01-01", ["2027-01-29T12:00", "2027-02-26T12:00", "2027-03-31T12:00"]),
    ("0 12 * * FRI#2", "UTC", "2026-11-01", ["2026-11-13T12:00", "2026-12-11T12:00", "2027-01-08T12:00"]),
    ("0 12 * * 5L", "UTC", "2026-11-01", ["2026-11-27T12:00", "2026-12-25T12:00", "2027-01-29T12:00"]),
    ("0 0 29 feb *", "UTC", "2026-01-01", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ("@daily", NEW_YORK, "2026-03-07T06:00", ["2026-03-08T05:00", "2026-03-09T04:00"]),
    ("@weekly", "UTC", "2026-11-29T00:00", ["2026-11-29T00:00", "2026-12-06T00:00"]),
    ("@Hourly", "UTC", "2026-11-29T00:30", ["2026-11-29T01:00", "2026-11-29T02:00"]),
    ("@monthly", "UTC", "2026-11-29", ["2026-12-01T00:00", "2027-01-01T00:00"]),
    ("@yearly", "UTC", "2026-11-29", ["2027-01-01T00:00", "2028-01-01T00:00"]),
]


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), EXPECTED)
def test_expression_holds_at_the_instants_of_the_table(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    cron = parse_cron(expression, zone)
    instants = [at_s for at_s, _ in zip(cron.since(seconds(start)), expected, strict=False)]
    assert instants == [seconds(text) for text in expected]


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), EXPECTED)
def test_expression_goes_on_the_same_from_any_of_its_instants(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    cron = parse_cron(expression, zone)
    at_s, found = seconds(start) - 1, []
    for _ in expected:
        at_s = cron.after(at_s)
        found.append(at_s)
    assert found == [seconds(text) for text in expected]


# zones that change at odd times, by odd amounts, or twice a year around Ramadan
ZONES = {
    NEW_YORK: ("2026-03-08", "2026-11-01"),
    BERLIN: ("2026-03-29", "2026-10-25"),
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),
    "America/Havana": ("2026-03-08", "2026-11-01"),
    "Asia/Beirut": ("2026-03-29", "2026-10-25"),
    "Africa/Casablanca": ("2026-02-15", "2026-03-22"),
    "Asia/Kolkata": ("2026-03-29", "2026-10-25"),
}
CHANGES = [(zone, day) for zone, days in ZONES.items() for day in days]


def walk(zone: str, day: str) -> list[tuple[int, datetime]]:
    """Every minute of the three days around a change: the instant, and what clocks show."""
    start = seconds(day) - 86400
    tz = ZoneInfo(zone)
    return [(at, datetime.fromtimestamp(at, tz).replace(tzinfo=None)) for at in range(start, start + 3 * 86400, 60)]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("step", [7, 15, 30])
def test_interval_holds_whenever_clocks_show_it(zone: str, day: str, step: int) -> None:
    minutes = walk(zone, day)
    expected = [at for at, shown in minutes if shown.minute % step == 0 and shown.hour in (0, 1, 2, 3)]
    found = takewhile(lambda at: at <= minutes[-1][0], parse_cron(f"*/{step} 0-3 * * *", zone).since(minutes[0][0]))
    assert list(found) == expected


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_time_of_day_fires_once_a_day_when_clocks_first_reach_it(zone: str, day: str) -> None:
    minutes = walk(zone, day)
    first, last = minutes[0][1], minutes[-1][1]
    for half_hours in range(8):
        since_midnight = timedelta(minutes=30 * half_hours)
        hour, minute = divmod(30 * half_hours, 60)
        midnight = datetime(first.year, first.month, first.day)
        wanted = [midnight + timedelta(days=days) + since_midnight for days in range(5)]
        expected = [next(at for at, shown in minutes if shown >= local) for local in wanted if first < local <= last]
        cron = parse_cron(f"{minute} {hour} * * *", zone)
        found = takewhile(lambda at: at <= minutes[-1][0], cron.since(minutes[0][0] + 1))
        assert list(found) == expected, f"{hour}:{minute:02}"


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("60 * * * *", "field minute"),
        ("* 24 * * *", "field hour is wrong; it takes 0 to 23, as"),
        ("* * 0 * *", "field day-of-month"),
        ("* * * 13 *", "field month"),
        ("* * * * 8", "field day-of-week"),
        ("60 * * * * *", "field second"),
        ("*/0 * * * *", "field minute"),
        ("5-5/00 * * * *", "field minute"),
        ("5-1 * * * *", "field minute"),
        ("* * 15W * *", "field day-of-month"),
        ("* * L-3 * *", "field day-of-month"),
        ("? * * * *", "field minute"),
        ("* * * * MON#6", "field day-of-week"),
        ("* * 31 2 *", "'* * 31 2 *' never comes: no month"),
        ("0 0 0 31 4,6 *", "never comes: no month"),
        ("0 0 32 2 *", "field day-of-month"),
        ("30 2", "'30 2' has 2 fields; write five fields (\"30 2 * * *\""),
        ("@fortnightly", "no macro named '@fortnightly'; known: @hourly"),
        ("1" * 5000 + " * * * *", "5008 characters long"),
        ("9" * 190 + " * * * *", "field minute"),
        ("\N{ARABIC-INDIC DIGIT FIVE} * * * *", "field minute"),
    ],
)
def test_wrong_expression_is_refused_with_what_is_wrong(expression: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_cron(expression)


@pytest.mark.parametrize(
    ("zone", "mend"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("../../etc/passwd", "no time zone"),
        ("", "no time zone"),
        ("localtime", "no time zone"),
        ("Mars", "IANA name"),
    ],
)
def test_unknown_zone_is_refused_with_the_nearest(zone: str, mend: str) -> None:
    with pytest.raises(ValueError, match="no time zone named") as caught:
        parse_cron("* * * * *", zone)
    assert mend in str(caught.value)

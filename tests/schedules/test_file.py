"""`[schedules.<name>]`: what it may hold, and how start-up ends where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.registry import Registry
from tests.api.running import CONFIG
from tests.schedules.configured import FILE, settings_with


def build(directory: Path, toml: str) -> Registry:
    return Registry.build(settings_with(directory, "redis://localhost/0", "n", CONFIG + toml))


def test_schedule_of_the_file_is_read_whole(tmp_path: Path) -> None:
    (schedule,) = build(tmp_path, FILE).schedules.values()
    assert (schedule.name, schedule.cron, schedule.timezone, schedule.target, schedule.source) == (
        *("nightly", "30 2 * * *", "Europe/Berlin", "echo", "file"),
    )
    assert bytes(schedule.payload) == b'{"full":true,"since":"2026-01-01"}'
    assert (schedule.catch_up, schedule.overlap, schedule.jitter_ms) == ("all(3)", "forbid", 300_000)


WRONG = [
    ("", "schedules.s.cron", "is missing"),
    ("cron = 3", "schedules.s.cron", "expected str, got int"),
    ('cron = "* * * *"', "schedules.s.cron", "has 4 fields"),
    ('cron = "* 25 * * *"', "schedules.s.cron", "field hour"),
    ('cron = "0 0 30 2 *"', "schedules.s.cron", "never comes"),
    ('cron = "@daily"\ntimezone = "Mars"', "schedules.s.timezone", "no time zone named 'Mars'"),
    ('cron = "@daily"\ntarget = "ehco"', "schedules.s.target", 'did you mean "echo"'),
    ('cron = "@daily"\nlane = "urgent"', "schedules.s.lane", "no lane named 'urgent'"),
    ('cron = "@daily"\npriority = 101', "schedules.s.priority", "<= 100"),
    ('cron = "@daily"\njitter = "2d"', "schedules.s.jitter", "between 0s and 24h"),
    ('cron = "@daily"\njitter = "x"', "schedules.s.jitter", "not a duration"),
    ('cron = "@daily"\ncatch_up = "all(0)"', "schedules.s.catch_up", "max 1 to 1000"),
    ('cron = "@daily"\noverlap = "never"', "schedules.s.overlap", "write one of: allow, forbid, replace"),
    ('cron = "@daily"\nmax_attempts = 0', "schedules.s.max_attempts", ">= 1"),
    ('cron = "@daily"\ntimeout = "8d"', "schedules.s.timeout", "between 1ms and 7d"),
    ('cron = "@daily"\ntags = ["a", ""]', "schedules.s.tags[1]", "printable"),
    ('cron = "@daily"\npaused = 1', "schedules.s.paused", "expected bool"),
    ('cron = "@daily"\nkey = ""', "schedules.s.key", "is empty"),
    ('cron = "@daily"\npayload = [nan]', "schedules.s.payload", "no inf and no nan"),
    (f'cron = "@daily"\npayload = 0x{"f" * 4000}', "schedules.s.payload", "a number of 4300 digits"),
    ('cron = "@daily"\ntimezon = "UTC"', "schedules.s", 'unknown key "timezon"; did you mean "timezone"'),
]


@pytest.mark.parametrize(("lines", "place", "says"), WRONG)
def test_start_ends_and_names_the_place_when_a_key_is_wrong(tmp_path: Path, lines: str, place: str, says: str) -> None:
    target = "" if "target" in lines else 'target = "echo"\n'
    with pytest.raises(ConfigError) as caught:
        build(tmp_path, f"[schedules.s]\n{target}{lines}\n")
    assert caught.value.place == f"gateway.toml: {place}"
    assert says in caught.value.detail


def test_start_ends_when_a_name_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a name"):
        build(tmp_path, '[schedules."a b"]\ncron = "@daily"\ntarget = "echo"\n')


def test_start_ends_when_a_schedule_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a table, got int"):
        build(tmp_path, "[schedules]\ns = 3\n")

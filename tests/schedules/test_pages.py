"""What docs/ says of schedules is so."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import msgspec
import pytest

from gateway.registry import Registry
from gateway.schedules import MACROS, ScheduleBody, parse_cron
from gateway.schedules.definition import make_schedule
from gateway.schedules.plan import COUNT_MOST, GRACE_MS
from gateway.settings import field_names
from tests.documents import ROOT, blocks
from tests.schedules.configured import settings_with

PAGE = (ROOT / "docs" / "schedules.md").read_text()
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
_FIELD = re.compile(r"^\| `(\w+)` \| (required|`[^`]*`|–) \|", re.MULTILINE)
_DAY = re.compile(r"^\| `([^`]+)` \| `([\w/]+)` \| (\d{4}-\d\d-\d\d)[^|]* \| ([^|]+) \|$", re.MULTILINE)
SAVING_DAYS = _DAY.findall(PAGE)


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    "rows", [section(PAGE, "Fields"), section(CONFIGURATION, "`[schedules.<name>]`")], ids=["page", "configuration"]
)
def test_table_of_fields_has_each_with_its_default(rows: str) -> None:
    found = dict(_FIELD.findall(rows))
    assert set(found) == set(field_names(ScheduleBody))
    bare = make_schedule("s", ScheduleBody(cron="@daily", target="t"), "api")
    assert {name for name, default in found.items() if default == "required"} == {"cron", "target"}
    for name in ("timezone", "priority", "catch_up", "overlap", "paused"):
        assert msgspec.json.decode(found[name].strip("`")) == getattr(bare, name)
    assert (found["jitter"], bare.jitter_ms, found["tags"], bare.tags) == ('`"0s"`', 0, "`[]`", ())


@pytest.mark.parametrize(("expression", "zone", "day", "times"), SAVING_DAYS)
def test_table_of_saving_days_is_what_happens(expression: str, zone: str, day: str, times: str) -> None:
    midnight = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
    instants = takewhile(lambda at: at < midnight + 86400, parse_cron(expression, zone).since(midnight))
    shown = [f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}".removesuffix(":00") for at in instants]
    assert (" ".join(shown) or "–") == times


def test_tables_speak_of_both_changes_in_both_zones() -> None:
    assert len({(zone, day) for _, zone, day, _ in SAVING_DAYS}) == 8


def test_page_names_every_macro_and_the_limits() -> None:
    assert set(re.findall(r"`(@\w+)`", PAGE)) - {"@reboot"} == set(MACROS)
    assert f"at most {GRACE_MS // 1000} seconds late" in PAGE
    assert f"counted up to {COUNT_MOST} in one gap" in PAGE


def test_example_of_the_page_loads(tmp_path: Path) -> None:
    (example,) = [block.text for block in blocks(ROOT / "docs" / "schedules.md") if block.title == "gateway.toml"]
    assert set(Registry.build(settings_with(tmp_path, "redis://localhost", "n", example)).schedules) == {"nightly"}

"""Tables as a terminal of 80 columns shows them, and records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from gateway.cli.dlq import print_dead
from gateway.cli.jobs import print_jobs, print_record
from gateway.cli.printing import print_answer, print_table
from gateway.cli.targets import print_target, print_targets
from gateway.cli.triggers import print_deliveries, print_delivery
from gateway.client.answers import DeliveryShown, DeliverySummary, JobRecord, JobSummary, Targets, TargetShown

DEAD = {
    "job_id": "01a22780-5329-7d03-8458-4c0287d2a700",
    "target": "resize-images-of-customers",
    "status": "dead",
    "reason": "exhausted",
    "lane": "critical",
    "priority": 0,
    "attempts": 5,
    "max_attempts": 5,
    "stalls": 0,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}

DELIVERY: dict[str, object] = {
    "id": "1796064651353-0",
    "at": "2026-11-30T18:50:51Z",
    "verdict": "accepted",
    "method": "POST",
    "path": "/hooks/github",
    "bytes": 12,
    "jobs": [],
    "event": "push",
}


@pytest.mark.parametrize("columns", ["0", "1", "30"])
def test_table_loses_no_column_in_a_terminal_that_is_too_narrow(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_table(("job", "state", "where"), [(DEAD["job_id"], "dead", "critical")], whole=1)
    words = set(capsys.readouterr().out.split())
    assert {DEAD["job_id"], "dead", "critical"} <= words


@pytest.mark.parametrize("empty", ["{}", "[]", '""'])
def test_record_shows_data_that_is_empty_and_no_other_empty_fact(
    empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = msgspec.json.decode(empty)
    print_record(msgspec.convert(DEAD | {"payload": value, "result": value}, JobRecord))
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (shown["payload"], shown["result"]) == (empty, empty)
    assert "tags" not in shown


def test_answer_steers_no_terminal_and_json_is_laid_out(capsys: pytest.CaptureFixture[str]) -> None:
    given = '{"n":9007199254740993,"x":1.0,"t":"\x9b2J\u202e\U000e0001é","l":"\\u001b[2J"}'
    print_answer(given.encode())
    shown = capsys.readouterr().out
    assert json.loads(shown) == json.loads(given)
    assert all(each.isprintable() for line in shown.splitlines() for each in line)
    assert shown.startswith('{\n  "n": 9007199254740993,\n  "x": 1.0,\n')
    print_answer(b"<p>\x1b[2J\r\n\xff</p>\n")
    assert capsys.readouterr().out == "<p>\\x1b[2J\n\ufffd</p>\n"


def test_replay_is_told_with_its_delivery_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    replayed = DELIVERY | {"id": "r1796064675755-0", "at": "2026-11-30T18:51:15Z", "verdict": "replayed"}
    replayed |= {"replay_of": "1796064651353-0"}
    print_deliveries([msgspec.convert(replayed, DeliverySummary)], False)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[2:] == [
        " r1796064675755-0  2026-11-30 18:51:15Z  replayed  push                0",
        "                                                   of 1796064651353-0",
    ]


def test_failed_delivery_is_told_with_its_event_and_its_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    failed = DELIVERY | {"verdict": "failed", "reason": "routes[1]: got null"}
    print_deliveries([msgspec.convert(failed, DeliverySummary)], False)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[2:] == [
        " 1796064651353-0  2026-11-30 18:50:51Z  failed   push                 0",
        "                                                 routes[1]: got null",
    ]


@pytest.mark.parametrize(
    ("kept", "end"),
    [
        ({"body_kept": True, "body": '{"n": 1}\x1b[2J\nmore'}, '{"n": 1}\\x1b[2J\nmore\n'),
        ({"body_kept": True, "body_base64": "/w=="}, "/w==\n"),
        ({}, "the body was not kept\n"),
    ],
)
def test_delivery_is_shown_with_its_headers_and_its_body(
    capsys: pytest.CaptureFixture[str], kept: dict[str, object], end: str
) -> None:
    headers = [["x-github-event", "push"], ["x-odd", "\x1b[2J"]]
    print_delivery(msgspec.convert(DELIVERY | kept | {"headers": headers}, DeliveryShown))
    facts, lines, body = capsys.readouterr().out.split("\n\n", 2)
    assert facts.splitlines()[0].split() == ["id", "1796064651353-0"]
    assert "headers" not in facts
    assert lines == "x-github-event: push\nx-odd: \\x1b[2J"
    assert body == end


def test_list_of_jobs_tells_their_age_where_there_is_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    made = datetime.now(UTC) - timedelta(minutes=10, seconds=5)
    waits = DEAD | {"status": "pending", "reason": None, "waiting_on": "concurrency", "created_at": made.isoformat()}
    print_jobs([msgspec.convert(waits, JobSummary)], False)
    shown = capsys.readouterr().out
    assert "pending: concurrency" in shown
    assert shown.splitlines()[3].split()[-1] == "10m"


def test_dead_jobs_are_listed_with_when_they_died(capsys: pytest.CaptureFixture[str]) -> None:
    died = datetime.now(UTC) - timedelta(hours=3, minutes=1)
    print_dead([msgspec.convert(DEAD | {"finished_at": died.isoformat()}, JobSummary)], False)
    assert "3h ago" in " ".join(capsys.readouterr().out.split())


def test_empty_listing_says_that_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    for listing in (print_jobs, print_dead, print_deliveries):
        listing([], False)
        assert capsys.readouterr().out == "none\n"


TARGET: dict[str, object] = {"name": "mail", "executor": "http", "paused": False, "pending": {"default": 28}}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "ready"),
        ({"paused": True}, "paused"),
        ({"blocked": "rate"}, "blocked: rate"),
        ({"blocked": "breaker", "disabled_at": "2026-12-01T00:04:04Z"}, "blocked: breaker"),
        ({"blocked": "disabled", "disabled_at": "2026-12-01T00:04:04Z", "paused": True}, "disabled"),
    ],
)
def test_target_is_listed_with_what_keeps_its_jobs(
    facts: dict[str, object], state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_targets(msgspec.convert({"targets": [TARGET | facts]}, Targets))
    assert capsys.readouterr().out.splitlines()[3].split(maxsplit=3)[3].strip() == state


def test_target_is_shown_with_its_breaker_and_since_when_that_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    breaker = {"ratio": 0.7, "minimum": 20, "window": 30.0, "pause": 5.0, "cap": 300.0}
    facts = {"blocked": "breaker", "disabled_at": "2026-12-01T00:04:04Z", "breaker": breaker, "timeout": 2.0}
    print_target(msgspec.convert(TARGET | facts, TargetShown))
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["breaker_open_since"] == "2026-12-01 00:04:04Z"
    assert shown["breaker"] == "opens for 5s to 5m once 70% of at least 20 attempts in 30s failed"
    assert shown["timeout"] == "2 s"
    assert "disabled_at" not in shown


def test_reason_of_a_dead_job_stays_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_jobs([msgspec.convert(DEAD, JobSummary)], False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in line.split()}
    assert {"dead", "exhausted", "critical", "5/5", DEAD["job_id"]} <= words

"""Targets, lanes, schedules, API keys and figures, over HTTP and straight in Redis."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_targets_are_listed_paused_and_resumed(shell: Shell) -> None:
    names = [target["name"] for target in shell.json("targets", "list")["targets"]]
    assert names == ["end_process", "fail", "held", "work"]
    assert shell.json("targets", "pause", "work")["blocked"] == "paused"
    assert shell.json("targets", "show", "work")["paused"]
    assert "paused" in shell.text("targets", "list")
    assert "paused    yes" in shell.text("targets", "show", "work")
    assert not shell.json("targets", "resume", "work")["paused"]
    assert "no target named" in shell.refused("targets", "pause", "none", code=1)


def test_lanes_are_listed_paused_and_resumed(shell: Shell) -> None:
    assert [lane["lane"] for lane in shell.json("lanes", "list")["lanes"]] == ["critical", "default", "low"]
    assert [lane["lane"] for lane in shell.json("lanes", "pause", "low")["lanes"] if lane["paused"]] == ["low"]
    assert "paused" in shell.text("lanes", "list")
    assert not any(lane["paused"] for lane in shell.json("lanes", "resume", "low")["lanes"])
    assert "no lane named" in shell.refused("lanes", "pause", "none", code=1)


def test_schedule_lives_from_put_to_delete(shell: Shell) -> None:
    made = shell.json(
        *("schedules", "put", "hourly", "--cron", "0 * * * *", "--target", "held", "--payload", '{"f": 1.0}'),
        *("--timezone", "Europe/Berlin", "--overlap", "forbid", "--jitter", "5s", "--paused", "--tag", "a"),
    )
    assert (made["paused"], made["overlap"], made["jitter"], made["tags"]) == (True, "forbid", 5.0, ["a"])
    assert '"payload":{"f": 1.0}' in shell.run("schedules", "show", "hourly", "--json").stdout
    assert "cron        0 * * * *" in shell.text("schedules", "show", "hourly")
    assert shell.json("schedules", "resume", "hourly")["next_run_at"]
    listed = shell.json("schedules", "list")
    assert ([each["name"] for each in listed["schedules"]], listed["more"]) == (["hourly", "nightly"], False)
    job_id = shell.json("schedules", "run", "hourly")["job_id"]
    assert "its last job" in shell.refused("schedules", "run", "hourly", code=1)
    shell.json("jobs", "cancel", job_id)
    assert shell.json("schedules", "pause", "hourly")["paused"]
    assert shell.json("schedules", "delete", "hourly") == {"deleted": "hourly"}
    assert "no schedule" in shell.refused("schedules", "show", "hourly", code=1)
    assert "gateway.toml" in shell.refused("schedules", "delete", "nightly", code=1)


def test_key_is_printed_once_and_deleted(shell: Shell) -> None:
    text = shell.text("apikeys", "create", "ci", "--scope", "submit").strip()
    assert text.startswith("gwk_")
    made = shell.json("apikeys", "create", "boss", "--scope", "admin", "--scope", "read")
    assert made["key"].startswith(f"gwk_{made['id']}_")
    keys = {key["name"]: key for key in shell.json("apikeys", "list")["apikeys"]}
    assert (keys["ci"]["scopes"], keys["boss"]["scopes"]) == (["submit"], ["read", "admin"])
    assert "boss" in shell.text("apikeys", "list")
    for key in keys.values():
        assert shell.json("apikeys", "delete", key["id"]) == {"deleted": key["id"]}
    assert "no API key" in shell.refused("apikeys", "delete", made["id"], code=1)
    assert "no scope named all" in shell.refused("apikeys", "create", "x", "--scope", "all", code=2)


def test_figures_are_shown_once_and_live(shell: Shell) -> None:
    shell.json("jobs", "submit", "work", '{"do": "return"}', "--wait", "20s")
    stats = shell.json("stats")
    assert stats["events"]["succeeded"] >= 1
    assert [lane["lane"] for lane in stats["lanes"]] == ["critical", "default", "low"]
    shown = shell.text("stats")
    assert "dispatchers  1" in shown
    assert "submitted" in shown
    lines = shell.run("top", "--count", "2", "--interval", "50ms", "--json").lines
    assert [line["dispatchers"] for line in lines] == [1, 1]
    live = shell.text("top", "--count", "2", "--interval", "50ms")
    assert "per second: submitted 0.0" in live

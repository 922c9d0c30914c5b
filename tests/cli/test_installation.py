"""Targets, lanes, schedules, API keys and figures, over HTTP and straight in Redis."""

from __future__ import annotations

import hmac
import json
import re
from typing import Any

from tests.cli.shell import Shell
from tests.e2e.installation import Installation
from tests.waiting import until_sync


def test_targets_are_listed_paused_and_resumed(shell: Shell) -> None:
    names = [target["name"] for target in shell.json("targets", "list")["targets"]]
    assert names == ["end_process", "fail", "held", "work"]
    assert shell.json("targets", "pause", "work")["blocked"] == "paused"
    assert shell.json("targets", "show", "work")["paused"]
    assert "paused" in shell.text("targets", "list")
    shown = shell.text("targets", "show", "work")
    assert "paused    yes" in shown
    assert re.search(r"^retry .*, at most \d+ attempts, gives up after about [\d.]+[smhd]$", shown, re.MULTILINE)
    assert not shell.json("targets", "resume", "work")["paused"]
    assert "disabled_at" not in shell.json("targets", "enable", "work", "--replay", "--rate", "50/s")
    said = shell.refused("targets", "show", "helt", code=1)
    assert said.startswith("gateway: no target named 'helt'; did you mean \"held\"? known: ")
    done = shell.run("jobs", "list", "--target", "helt")
    assert (done.code, done.stdout) == (0, "none\n")
    assert "no target named 'helt'; did you mean \"held\"?" in done.stderr


def test_lanes_are_listed_paused_and_resumed(shell: Shell) -> None:
    assert [lane["lane"] for lane in shell.json("lanes", "list")["lanes"]] == ["critical", "default", "low"]
    assert [lane["lane"] for lane in shell.json("lanes", "pause", "low")["lanes"] if lane["paused"]] == ["low"]
    assert "paused" in shell.text("lanes", "list")
    assert not any(lane["paused"] for lane in shell.json("lanes", "resume", "low")["lanes"])
    assert "no lane named" in shell.refused("lanes", "pause", "none", code=1)


def test_schedule_lives_from_put_to_delete(shell: Shell) -> None:
    made = shell.json(
        *("schedules", "put", "hourly", "--cron", "0 * * * *", "--target", "held", "--payload", '{"f": 1.0}'),
        *("--timezone", "Europe/Berlin", "--overlap", "forbid", "--jitter", "5", "--paused", "--tag", "a"),
    )
    assert (made["paused"], made["overlap"], made["jitter"], made["tags"]) == (True, "forbid", 5.0, ["a"])
    assert '"payload":{"f": 1.0}' in shell.run("schedules", "show", "hourly", "--json").stdout
    assert "cron        0 * * * *" in shell.text("schedules", "show", "hourly")
    assert shell.json("schedules", "resume", "hourly")["next_run_at"]
    assert re.fullmatch(r"next \d{4}(-\d\d){2} \d\d(:\d\d){2}Z\n", shell.text("schedules", "resume", "hourly"))
    listed = shell.json("schedules", "list")
    assert ([each["name"] for each in listed["schedules"]], listed["more"]) == (["hourly", "nightly"], False)
    job_id = shell.json("schedules", "run", "hourly")["job_id"]
    assert "its last job" in shell.refused("schedules", "run", "hourly", code=1)
    shell.json("jobs", "cancel", job_id)
    assert shell.json("schedules", "pause", "hourly")["paused"]
    assert shell.json("schedules", "delete", "hourly") == {"deleted": "hourly"}
    said = shell.refused("schedules", "show", "nightli", code=1)
    assert said == "gateway: no schedule named 'nightli'; did you mean \"nightly\"? known: nightly\n"
    assert "gateway.toml" in shell.refused("schedules", "delete", "nightly", code=1)


def test_key_is_printed_once_and_deleted(shell: Shell) -> None:
    text = shell.text("apikeys", "create", "ci", "--scope", "submit").strip()
    assert text.startswith("gwk_")
    made = shell.json(
        "apikeys", "create", "boss", "--scope", "admin", "--scope", "read", "--callback-url", "https://shop.example/"
    )
    assert made["key"].startswith(f"gwk_{made['id']}_")
    keys = {key["name"]: key for key in shell.json("apikeys", "list")["apikeys"]}
    assert (keys["ci"]["scopes"], keys["boss"]["scopes"]) == (["submit"], ["read", "admin"])
    assert keys["boss"]["callback"]["url"] == "https://shop.example/"
    assert "boss" in shell.text("apikeys", "list")
    for key in keys.values():
        assert shell.json("apikeys", "delete", key["id"]) == {"deleted": key["id"]}
    assert "no API key" in shell.refused("apikeys", "delete", made["id"], code=1)
    assert "no scope named all" in shell.refused("apikeys", "create", "x", "--scope", "all", code=2)


def test_signing_key_is_changed_with_the_old_one_beside_it(shell: Shell) -> None:
    old = shell.json("signing-keys", "list")["keys"][0]["public_key"]
    new, beside = (key["public_key"] for key in shell.json("signing-keys", "rotate", "--overlap", "3600")["keys"][:2])
    assert beside == old != new
    assert shell.text("signing-keys", "list").split()[:2] == [new, old]
    assert shell.json("signing-keys", "list")["keys"][0]["public_key"] == new
    assert [key["public_key"] for key in shell.json("signing-keys", "rotate")["keys"]][1:3] == [new, old]
    assert "overlap" in shell.refused("signing-keys", "rotate", "--overlap", "soon", code=1)


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
    assert live.endswith("\n")
    assert not live.endswith("\n\n")


def test_target_is_registered_tried_out_and_forgotten(shell: Shell) -> None:
    table = '{"executor": "http", "url": "https://shop.invalid/", "timeout": 2}'
    assert shell.json("targets", "put", "ship", table)["source"] == "api"
    probed = shell.json("targets", "test", "ship", '{"f": 1.0}', code=3)
    assert (probed["outcome"], probed["request"]["body"]) == ("retry", '{"f": 1.0}')
    assert "outcome  retry" in shell.text("targets", "test", "ship", code=3)
    assert shell.json("targets", "rotate", "ship", "--overlap", "3600")["secret"].startswith("whsec_")
    assert shell.json("targets", "delete", "ship", "--force") == {"deleted": "ship"}
    assert "defined in" in shell.refused("targets", "delete", "work", code=1)
    assert "not a JSON object" in shell.refused("targets", "put", "ship", "[]", code=2)
    assert 'missing key "executor"' in shell.refused("targets", "put", "ship", "{}", code=1)


def test_trigger_is_registered_and_its_deliveries_are_seen(shell: Shell, installed: Installation) -> None:
    table = {"verifier": "github", "secrets": ["hush"], "routes": [{"target": "held"}]}
    made = shell.run("triggers", "put", "till", "-", "--json", input=json.dumps(table))
    assert (made.code, made.json["secrets"]) == (0, 1)
    assert "hush" not in made.stdout
    body = b'{"n": 1}'
    mac = hmac.digest(b"hush", body, "sha256").hex()
    headers = {"x-hub-signature-256": f"sha256={mac}", "x-github-delivery": shell.folder.name, "x-github-event": "push"}

    def taken() -> bool:
        # what was registered by another process is known here within seconds
        return installed.client.post("/hooks/till", content=body, headers=headers).status_code == 202

    until_sync(taken)
    assert [each["name"] for each in shell.json("triggers", "list")["triggers"]] == ["till"]
    assert "github" in shell.text("triggers", "list")
    assert shell.json("triggers", "show", "till")["verifier"] == "github"
    found: list[dict[str, Any]] = []

    def seen() -> bool:
        found[:] = shell.json("triggers", "deliveries", "till", "--verdict", "accepted", "--limit", "1")["deliveries"]
        return bool(found)

    until_sync(seen)
    assert found[0]["id"] in shell.text("triggers", "deliveries", "till")
    assert shell.json("triggers", "delivery", "till", found[0]["id"])["body"] == body.decode()
    assert shell.text("triggers", "delivery", "till", found[0]["id"]).endswith(body.decode() + "\n")
    refused = shell.refused("triggers", "deliveries", "till", "--verdict", "taken", code=1)
    assert refused.startswith("gateway: --verdict: 'taken' is none of them; known: accepted, "), refused
    again = shell.json("triggers", "replay", "till", found[0]["id"])
    for job in (*found[0]["jobs"], *again["jobs"]):
        shell.run("jobs", "cancel", job["job_id"])
    assert "named 'tills'; did you mean \"till\"?" in shell.refused("triggers", "show", "tills", code=1)
    assert shell.json("triggers", "delete", "till") == {"deleted": "till"}
    assert "no trigger named" in shell.refused("triggers", "show", "till", code=1)

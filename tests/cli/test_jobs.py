"""`gateway jobs`, over HTTP and straight in Redis."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.shell import Shell


def test_job_is_submitted_and_is_as_it_was_written(shell: Shell) -> None:
    payload = '{"do": "return", "big": 9007199254740993, "f": 1.0}'
    made = shell.json(
        *("jobs", "submit", "held", payload, "--lane", "low", "--priority", "7", "--max-attempts", "3"),
        *("--key", "k", "--tag", "a", "--tag", "b", "--expires-in", "86400", "--timeout", "1.5"),
        *("--callback-url", "https://shop.example/done", "--callback-event", "job.dead", "--retry", '{"base": "1s"}'),
    )
    assert made["status"] == "pending"
    done = shell.run("jobs", "get", made["job_id"], "--json")
    assert f'"payload":{payload}' in done.stdout
    record = done.json
    assert (record["lane"], record["priority"], record["max_attempts"], record["key"]) == ("low", 7, 3, "k")
    assert (record["tags"], record["waiting_on"]) == (["a", "b"], "paused")
    assert shell.json("jobs", "cancel", made["job_id"]) == {"job_id": made["job_id"], "status": "cancelled"}
    assert "is over" in shell.refused("jobs", "cancel", made["job_id"], code=1)


def test_record_and_list_are_for_people_too(shell: Shell) -> None:
    job_id = shell.text("jobs", "submit", "held", "@-", "--tag", "seen", input='"\\u001b[2J"').strip()
    shown = shell.text("jobs", "get", job_id)
    assert f"job_id        {job_id}\n" in shown
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown
    listed = shell.text("jobs", "list", "--tag", "seen")
    assert job_id in listed
    assert max(map(len, listed.splitlines())) <= 80
    assert shell.text("jobs", "cancel", job_id) == "cancelled\n"


def test_listing_is_as_long_as_it_is_asked_to_be(shell: Shell, tmp_path: Path) -> None:
    batch = json.dumps([{"target": "held", "tags": [tmp_path.name], "payload": n} for n in range(5)])
    ids = [each["job_id"] for each in shell.json("jobs", "submit", "--file", "-", input=batch)["results"]]
    whole = shell.json("jobs", "list", "--tag", tmp_path.name)
    assert ([job["job_id"] for job in whole["jobs"]], whole["more"]) == (ids, False)
    part = shell.json("jobs", "list", "--tag", tmp_path.name, "--limit", "2", "--status", "pending", "--target", "held")
    assert ([job["job_id"] for job in part["jobs"]], part["more"]) == (ids[:2], True)
    for job_id in ids:
        shell.json("jobs", "cancel", job_id)


def test_events_of_a_callback_are_checked(shell: Shell) -> None:
    url = ("--callback-url", "https://shop.example/done")
    said = shell.refused("jobs", "submit", "held", *url, "--callback-event", "job.done", code=1)
    assert "--callback-event" in said
    assert "needs --callback-url" in shell.refused("jobs", "submit", "held", "--callback-event", "job.dead", code=2)


def test_many_jobs_are_cancelled_by_id_and_by_what_they_have_in_common(shell: Shell, tmp_path: Path) -> None:
    tag = tmp_path.name
    batch = json.dumps([{"target": "held", "tags": [tag], "payload": n} for n in range(5)])
    ids = [each["job_id"] for each in shell.json("jobs", "submit", "--file", "-", input=batch)["results"]]
    done = shell.json("jobs", "cancel", *ids[:2], "nobody", code=1)
    assert (done["cancelled"], done["asked"], list(done["refused"])) == (ids[:2], [], ["nobody"])
    later = shell.text("jobs", "submit", "held", "--tag", tag, "--delay", "1h").strip()
    assert "Cancel these jobs?" in shell.run("jobs", "cancel", "--tag", tag).stderr
    assert shell.json("jobs", "cancel", "--tag", tag, "--status", "pending", "--yes") == {"cancelled": 3, "asked": 0}
    assert shell.json("jobs", "get", later)["status"] == "scheduled"
    assert shell.json("jobs", "count", "--tag", tag) == {"scheduled": 1, "cancelled": 5}
    assert shell.text("jobs", "count", "--tag", tag).split()[-4:] == ["scheduled", "1", "cancelled", "5"]
    assert shell.json("jobs", "count", "--tag", tag, "--target", "none") == {}
    assert shell.text("jobs", "cancel", "--tag", tag, "--target", "held", "--yes") == "1 cancelled\n"
    assert {each["status"] for each in shell.json("jobs", "list", "--tag", tag)["jobs"]} == {"cancelled"}


def test_jobs_to_cancel_are_named_in_one_way(shell: Shell) -> None:
    for arguments in (), ("id", "--all"), ("--all", "--tag", "a"), ("id", "--status", "pending"):
        assert "name jobs by their ids" in shell.refused("jobs", "cancel", *arguments, code=2)
    assert "dead jobs are over" in shell.refused("jobs", "cancel", "--status", "dead", code=2)


def test_job_is_waited_for(shell: Shell) -> None:
    record = shell.json("jobs", "submit", "work", '{"do": "return"}', "--wait", "20s")
    assert record["status"] == "succeeded"
    died = shell.json("jobs", "submit", "fail", "--wait", "20s", code=3)
    assert (died["status"], died["reason"]) == ("dead", "exhausted")
    both = shell.json("jobs", "wait", record["job_id"], died["job_id"], "--timeout", "5s", code=3)
    assert [each["status"] for each in both["jobs"]] == ["succeeded", "dead"]
    assert [each["status"] for each in shell.json("jobs", "wait", record["job_id"])["jobs"]] == ["succeeded"]
    assert "exhausted" in shell.text("jobs", "wait", died["job_id"], code=3)
    assert shell.json("jobs", "retry", died["job_id"], "--max-attempts", "1")["max_attempts"] == 1
    shell.json("jobs", "wait", died["job_id"], code=3)


def test_wait_ends_with_75_when_the_time_is_over(shell: Shell) -> None:
    job_id = shell.text("jobs", "submit", "held").strip()
    assert "it goes on" in shell.refused("jobs", "wait", job_id, "--timeout", "50ms", code=os.EX_TEMPFAIL)
    shell.json("jobs", "cancel", job_id)
    assert "no job with the id" in shell.refused("jobs", "wait", "nobody", code=1)


def test_tail_tells_what_happened_until_the_end(shell: Shell) -> None:
    job_id = shell.text("jobs", "submit", "fail", "--delay", "50ms").strip()
    done = shell.run("jobs", "tail", job_id, "--json")
    assert done.code == 3
    assert [event["type"] for event in done.lines] == ["accepted", "started", "retrying", "started", "dead"]
    assert done.lines[2]["attempt"] == 1
    assert "dead reason=exhausted" in shell.text("jobs", "tail", job_id, code=3)


def test_file_of_jobs_is_taken_in_line_by_line(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "jobs.ndjson"
    jobs = [{"target": "held", "payload": 1.0, "idempotency_key": tmp_path.name}, {"target": "wurk"}]
    file.write_text("\n".join(map(json.dumps, jobs)))
    found = shell.json("jobs", "submit", "--file", str(file), code=1)
    assert (found["accepted"], found["duplicates"], found["failed"]) == (1, 0, 1)
    assert found["results"][1]["error"]["status"] == 404
    done = shell.run("jobs", "submit", "--file", str(file))
    assert (done.code, done.stdout) == (1, "1 jobs taken in, 1 of them before; 1 refused\n")
    assert done.stderr.startswith("gateway: job 2: /target: no target named 'wurk'")
    job_id = found["results"][0]["job_id"]
    assert b'"payload":1.0' in shell.run("jobs", "get", job_id, "--json").stdout.encode()
    shell.json("jobs", "cancel", job_id)


def test_wrong_use_is_2_and_a_refusal_is_1(shell: Shell) -> None:
    assert "not JSON" in shell.refused("jobs", "submit", "held", "{bad", code=2)
    assert "name a target" in shell.refused("jobs", "submit", code=2)
    assert "gateway: --tag: a tag is" in shell.refused("jobs", "submit", "held", "1", "--tag", "a", "--tag", "", code=1)
    assert "cannot be read" in shell.refused("jobs", "submit", "--file", "none.ndjson", code=2)
    deep = '{"target":"echo","payload":' + "[" * 20_000 + "]" * 20_000 + "}"
    assert "line 1 is not a job" in shell.run("jobs", "submit", "--file", "-", input=deep).stderr
    assert "not an array of jobs" in shell.run("jobs", "submit", "--file", "-", input=f"[{deep}]").stderr
    assert "not a duration" in shell.refused("jobs", "wait", "x", "--timeout", "soon", code=2)
    assert "No such command" in shell.refused("jobs", "sumbit", code=2)
    assert 'did you mean "held"' in shell.refused("jobs", "submit", "helt", code=1)
    assert "gateway: --delay: not a duration" in shell.refused("jobs", "submit", "held", "--delay", "soon", code=1)
    assert "no job with the id" in shell.refused("jobs", "get", "nobody", code=1)

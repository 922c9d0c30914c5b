"""`gateway dlq`, over HTTP and straight in Redis."""

from __future__ import annotations

import time

from tests.cli.shell import Shell

LONG_AGO, LATER = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


def dead(shell: Shell, count: int = 1) -> list[str]:
    """Jobs that failed for good."""
    ids = [shell.text("jobs", "submit", "fail", "--max-attempts", "1").strip() for _ in range(count)]
    shell.json("jobs", "wait", *ids, "--timeout", "20s", code=3)
    return ids


def await_end(shell: Shell, replay_id: str) -> None:
    """Returns once a replay is over: until then it takes what dies of the next test's jobs for its own."""
    until_s = time.monotonic() + 20.0
    while shell.json("dlq", "replay", replay_id)["state"] != "done":
        assert time.monotonic() < until_s


def test_dead_job_is_listed_shown_and_sent_back(shell: Shell) -> None:
    (job_id,) = dead(shell)
    assert job_id in [
        job["job_id"] for job in shell.json("dlq", "ls", "--target", "fail", "--reason", "exhausted")["jobs"]
    ]
    assert shell.json("dlq", "ls", "--reason", "stalled") == {"jobs": [], "more": False}
    listed = shell.text("dlq", "ls")
    assert job_id in listed
    assert "ValueError: broken" in listed
    assert shell.json("dlq", "show", job_id)["reason"] == "exhausted"
    assert "reason        exhausted" in shell.text("dlq", "show", job_id)
    found = shell.json("dlq", "retry", job_id, "nobody", code=1)
    assert (found["retried"], list(found["refused"])) == ([job_id], ["nobody"])
    shell.json("jobs", "wait", job_id, code=3)
    assert shell.text("dlq", "retry", job_id, "--max-attempts", "2") == "1 retried\n"
    shell.json("jobs", "wait", job_id, code=3)
    assert shell.json("dlq", "show", job_id)["max_attempts"] == 2
    shell.json("dlq", "purge", job_id)
    assert "no job" in shell.refused("dlq", "show", job_id, code=1)


def test_dead_jobs_are_sent_back_by_filter_and_seen_to_the_end(shell: Shell) -> None:
    ids = dead(shell, 2)
    shell.json("targets", "pause", "fail")
    try:
        none = shell.json("dlq", "retry", "--target", "fail", "--dead-before", LONG_AGO, "--wait")
        assert (none["state"], none["replayed"]) == ("done", 0)
        all_ = shell.json("dlq", "retry", "--target", "fail", "--rate", "1000/s", "--wait")
        assert (all_["state"], all_["replayed"], all_["matched"]) == ("done", 2, 2)
        assert {shell.json("jobs", "cancel", job_id)["status"] for job_id in ids} == {"cancelled"}
    finally:
        shell.json("targets", "resume", "fail")
    begun = shell.json("dlq", "retry", "--all")
    assert begun["state"] == "running"
    said = shell.text("dlq", "retry", "--target", "fail").strip()
    replay_id = said.split()[1]
    assert said == f"replay {replay_id} is under way; how far it is: gateway dlq replay {replay_id}"
    assert shell.json("dlq", "replay", replay_id)["replay_id"] == replay_id
    assert "matched" in shell.text("dlq", "replay", replay_id)
    for each in (begun["replay_id"], replay_id):
        await_end(shell, each)


def test_dead_jobs_are_purged_by_filter_once_it_was_confirmed(shell: Shell) -> None:
    dead(shell, 2)
    done = shell.run("dlq", "purge", "--all", input="n\n")
    assert (done.code, done.stdout.strip()) == (1, "")
    assert len(shell.json("dlq", "ls")["jobs"]) == 2
    assert shell.json("dlq", "purge", "--reason", "stalled", "--yes") == {"purged": 0}
    assert shell.json("dlq", "purge", "--dead-after", LATER, "--yes") == {"purged": 0}
    assert shell.text("dlq", "purge", "--target", "fail", "-y") == "2 purged\n"
    assert shell.json("dlq", "ls")["jobs"] == []


def test_it_has_to_be_said_which_jobs(shell: Shell) -> None:
    for wrong in ((), ("--all", "some-id"), ("--all", "--target", "fail")):
        assert "name jobs by their ids" in shell.refused("dlq", "purge", *wrong, "--yes", code=2)
        assert "name jobs by their ids" in shell.refused("dlq", "retry", *wrong, code=2)
    said = shell.refused("dlq", "retry", "--all", "--rate", "5", code=1)
    assert said.startswith("gateway: --rate: ")
    assert "Invalid value for '--reason': 'foo' is not one of" in shell.refused("dlq", "ls", "--reason", "foo", code=2)
    assert "--dead-after: " in shell.refused("dlq", "purge", "--dead-after", "yesterday", "-y", code=1)

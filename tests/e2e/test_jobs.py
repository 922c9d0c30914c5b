"""A job's life through the real processes: submitted, retried, dead, sent back, cancelled, asked for twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import Installation
from tests.waiting import until_sync


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One `gateway up` for all tests of this module."""
    folder: Path = tmp_path_factory.mktemp("up")
    installation = Installation(folder)
    installation.configure()
    try:
        installation.up()
        yield installation
    finally:
        installation.close()


def test_failing_job_dies_with_its_error_and_runs_again_when_it_is_sent_back(running: Installation) -> None:
    job_id = running.submit("fail")
    record = running.ended(job_id)
    assert (record["status"], record["reason"], record["attempts"]) == ("dead", "exhausted", 2)
    error = record["error"]
    assert (error["type"], error["message"]) == ("ValueError", "broken")
    assert error["traceback"][0].startswith("tasks.py:")
    assert job_id in [each["job_id"] for each in running.client.get("/dlq").json()["jobs"]]
    answer = running.client.post(f"/dlq/{job_id}/retry")
    assert (answer.status_code, answer.json()["job_id"]) == (200, job_id)
    until_sync(lambda: running.record(job_id)["status"] == "dead")
    events = [each["type"] for each in running.client.get(f"/jobs/{job_id}/events").json()["events"]]
    assert events.count("retrying") == 2
    assert events.count("dead") == 2


def test_repeated_idempotency_key_runs_one_job(running: Installation) -> None:
    before = len(running.lines())
    body = {"target": "work", "payload": {"name": "once"}, "idempotency_key": "order 7"}
    first = running.client.post("/jobs", json=body)
    again = running.client.post("/jobs", json=body)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["job_id"] == first.json()["job_id"]
    assert again.json()["duplicate"] is True
    running.ended(first.json()["job_id"])
    assert len(running.lines()) == before + 2


def test_running_job_is_cancelled(running: Installation) -> None:
    job_id = running.submit("work", {"name": "cancelled", "s": 60})
    running.reached(job_id, "running")
    assert running.client.delete(f"/jobs/{job_id}").status_code == 202
    assert running.ended(job_id)["status"] == "cancelled"


def test_waiting_job_is_cancelled_and_never_runs(running: Installation) -> None:
    job_id = running.submit("work", {"name": "never"}, delay="1h")
    assert running.client.delete(f"/jobs/{job_id}").status_code == 200
    assert running.record(job_id)["status"] == "cancelled"
    assert running.client.delete(f"/jobs/{job_id}").status_code == 409


def test_batch_runs_every_job(running: Installation) -> None:
    ids = running.submit_many([{"target": "work", "payload": {"name": f"b{at}"}} for at in range(100)])
    assert {running.ended(job_id)["status"] for job_id in ids} == {"succeeded"}
    assert [line[1] for line in running.lines() if line[0] == "end" and line[1].startswith("b")]

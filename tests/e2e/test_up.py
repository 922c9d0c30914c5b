"""`gateway up`: one command that brings everything, leaves nothing behind, and says what is wrong."""

from __future__ import annotations

import os
import signal

from tests.e2e.installation import Installation
from tests.waiting import until_sync


def test_up_serves_runs_and_leaves_no_process_behind(installation: Installation) -> None:
    up = installation.up()
    assert installation.client.get("/livez").status_code == 200
    record = installation.ended(installation.submit("work", {"name": "one"}))
    assert (record["status"], record["result"], record["attempts"]) == ("succeeded", {"name": "one"}, 1)
    assert "gateway_jobs" in installation.client.get("/metrics").text
    assert len(installation.processes()) >= 4  # itself, a gateway, a dispatcher, a Valkey
    assert up.stop() == 0
    assert installation.processes() == []


def test_up_keeps_its_jobs_when_it_is_stopped_and_started_again(installation: Installation) -> None:
    up = installation.up()
    done = installation.submit("work", {"name": "before"})
    installation.ended(done)
    later = installation.submit("work", {"name": "after"}, delay="2s")
    assert up.stop() == 0
    installation.up()
    assert installation.record(done)["result"] == {"name": "before"}
    assert installation.ended(later)["status"] == "succeeded"


def test_second_up_in_one_folder_is_refused_and_names_the_first(installation: Installation) -> None:
    first = installation.up()
    second = installation.start("up", "--port", "0")
    assert second.wait() == os.EX_CONFIG
    assert f"process {first.pid}" in second.log.read_text()
    assert installation.client.get("/readyz").status_code == 200


def test_up_is_refused_when_the_configuration_is_wrong(installation: Installation) -> None:
    installation.configure(more='[targets.broken]\nexecutor = "python"\ncallable = "tasks:nowhere"\n')
    up = installation.start("up", "--port", "0")
    assert up.wait() == os.EX_CONFIG
    text = up.log.read_text()
    assert "targets.broken" in text
    assert "nowhere" in text
    assert "Traceback" not in text
    assert installation.processes() == []


def test_dispatcher_is_started_again_when_it_dies(installation: Installation) -> None:
    up = installation.up()
    pid = next(each["pid"] for each in up.lines("child started") if each["child"] == "dispatcher-1")
    os.kill(pid, signal.SIGKILL)
    up.await_line("dispatcher started", count=2)
    assert installation.ended(installation.submit("work", {}))["status"] == "succeeded"


def test_valkey_is_started_again_when_it_dies(installation: Installation) -> None:
    up = installation.up()
    job_id = installation.submit("work", {}, delay="3s")
    pid = int((installation.folder / ".gateway" / "valkey.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    until_sync(lambda: up.lines("embedded valkey died; starting it again") != [])
    until_sync(lambda: installation.client.get("/readyz").status_code == 200)
    assert installation.ended(job_id)["status"] == "succeeded"

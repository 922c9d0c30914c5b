"""Python functions that do what no function should: no job runs twice meanwhile, and nothing of them is left over."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.installation import Installation
from tests.waiting import until_sync

pytestmark = pytest.mark.long

LEASE_S = 1.0
HAZARDS = f"""
import os, subprocess, time
import gateway
from tasks import note

@gateway.target("sleeps")
def sleeps(payload, context):
    note("sleeps", context.job.job_id)
    time.sleep({3 * LEASE_S})

@gateway.target("holds_the_loop")
async def holds_the_loop(payload, context):
    note("holds", context.job.job_id)
    time.sleep({2 * LEASE_S})

@gateway.target("exits")
def exits(payload, context):
    note("exits", context.job.job_id)
    os._exit(7)

@gateway.target("leaks")
def leaks(payload): return subprocess.Popen(["sleep", "300"]).pid

@gateway.target("leaks_apart", isolation="process")
def leaks_apart(payload):
    return [subprocess.Popen([*setsid, "sleep", "300"]).pid for setsid in ([], ["setsid"])]

@gateway.target("exits_apart", isolation="process", max_attempts=1)
def exits_apart(payload): os._exit(7)
"""


def test_functions_that_sleep_block_exit_and_leak_harm_no_other_and_leave_nothing(installation: Installation) -> None:
    installation.add_module("hazards", HAZARDS)
    installation.configure(lease=f"{LEASE_S}s", max_stalls=0)
    process = installation.up("--import", "hazards")
    dispatcher = _dispatcher_of(installation)
    sleeping = installation.submit("sleeps")
    until_sync(lambda: [line for line in installation.lines() if line[0] == "sleeps"] != [])
    holding = installation.submit("holds_the_loop")
    leaking, apart = installation.submit("leaks"), installation.submit("leaks_apart")
    for job_id in (sleeping, holding):
        record = installation.ended(job_id)
        assert (record["status"], record["attempts"], record["stalls"]) == ("succeeded", 1, 0), record
        assert [line[1] for line in installation.lines()].count(job_id) == 1
    (line,) = process.lines("the event loop is blocked: every job of this dispatcher waits")
    assert (line["target"], line["job_id"]) == ("holds_the_loop", holding)
    assert line["at"][-1].startswith("hazards.py:")

    leaked = [installation.ended(leaking)["result"], *installation.ended(apart)["result"]]
    until_sync(lambda: set(leaked[1:]).isdisjoint(installation.processes()))
    record = installation.ended(installation.submit("exits_apart"))
    assert (record["reason"], record["error"]["type"]) == ("exhausted", "process")
    assert _dispatcher_of(installation) == dispatcher, "only its own process ended"

    record = installation.ended(installation.submit("exits"), timeout_s=60)
    assert (record["status"], record["reason"]) == ("dead", "stalled")
    assert [line[0] for line in installation.lines()].count("exits") == 2, "the first run, and one more as a suspect"
    until_sync(lambda: leaked[0] not in installation.processes())
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    until_sync(lambda: installation.processes() == [], timeout_s=60)


def _dispatcher_of(installation: Installation) -> int:
    (pid,) = [pid for pid in installation.processes() if b"dispatch" in installation.command_line(pid).split(b"\0")]
    return pid

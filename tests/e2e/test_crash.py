"""kill -9, at random and under load: nothing is lost, and nothing runs twice but what was running."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.e2e.installation import Installation, Process
from tests.servers import Server
from tests.waiting import until_sync

BATCH = 25
SLOTS = 3


def statuses(installation: Installation) -> dict[str, int]:
    """How many jobs there are of each status."""
    found: dict[str, int] = defaultdict(int)
    cursor = ""
    while True:
        page = installation.client.get("/jobs", params={"limit": 100, **({"cursor": cursor} if cursor else {})}).json()
        for record in page["jobs"]:
            found[record["status"]] += 1
        cursor = page.get("next_cursor") or ""
        if not cursor:
            return found


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.long)])
def test_every_job_ends_once_when_dispatchers_are_killed_at_random(
    installation: Installation, redis_server: Server, kills: int
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    installation.configure(lease="3s", slots=SLOTS, max_stalls=50)  # so long that none is lost but to a kill
    installation.serve(redis_server.url)
    dispatchers = [installation.dispatch(redis_server.url) for _ in range(2)]
    ids: list[str] = []
    killed: list[int] = []
    for _ in range(kills):
        victim = draw.randrange(2)
        dispatchers[victim].await_line("dispatcher started")
        ids += installation.submit_many(_jobs(draw))
        _kill_at_work(installation, dispatchers[victim], draw)
        killed.append(dispatchers[victim].pid)
        dispatchers[victim] = installation.dispatch(redis_server.url)
    until_sync(lambda: statuses(installation)["succeeded"] == kills * BATCH, timeout_s=60, every_s=0.3)
    records = [installation.record(job_id) for job_id in ids]
    assert {(record["status"], record["attempts"]) for record in records} == {("succeeded", 1)}
    _check_effects(installation, ids, killed)


def _jobs(draw: random.Random) -> list[dict[str, Any]]:
    return [{"target": "work", "payload": {"s": draw.uniform(0.01, 0.12)}} for _ in range(BATCH)]


def _kill_at_work(installation: Installation, victim: Process, draw: random.Random) -> None:
    """kill -9 once it has begun to work, and a moment later."""
    until_sync(lambda: any(line[3] == str(victim.pid) for line in installation.lines()))
    time.sleep(draw.uniform(0.0, 0.25))  # the random point itself
    victim.kill()


def _check_effects(installation: Installation, ids: list[str], killed: list[int]) -> None:
    starts: dict[str, list[int]] = defaultdict(list)
    for kind, job_id, _, pid in installation.lines():
        if kind == "start":
            starts[job_id].append(int(pid))
    assert set(starts) == set(ids)
    repeated = Counter(pid for pids in starts.values() for pid in pids[:-1])
    assert set(repeated) <= set(killed), "a job ran again although its dispatcher was not killed"
    assert max(repeated.values(), default=0) <= SLOTS, f"more ran again than were in flight: {repeated}"


def test_no_acknowledged_job_is_lost_when_everything_is_killed_and_started_again(installation: Installation) -> None:
    installation.configure(lease="1s", slots=2)
    up = installation.up()
    ids = installation.submit_many([{"target": "work", "payload": {"s": 0.02}} for _ in range(200)])
    assert statuses(installation)["pending"] > 100
    up.kill()
    os.kill(int((installation.folder / ".gateway" / "valkey.pid").read_text()), signal.SIGKILL)
    until_sync(lambda: not installation.processes())
    installation.up()
    until_sync(lambda: statuses(installation)["succeeded"] == 200, timeout_s=60, every_s=0.2)
    starts = [line[1] for line in installation.lines() if line[0] == "start"]
    assert set(starts) == set(ids)
    assert len(starts) <= 200 + 2


def test_job_that_ends_its_process_dies_and_every_other_lives(installation: Installation, redis_server: Server) -> None:
    installation.configure(lease="1s", slots=10)
    installation.serve(redis_server.url)
    jobs: list[dict[str, Any]] = [{"target": "work", "payload": {"s": 0.05}} for _ in range(50)]
    jobs.insert(25, {"target": "end_process"})
    ids = installation.submit_many(jobs)
    poison = ids.pop(25)

    def over() -> bool:
        if dispatchers[-1].ended:
            dispatchers.append(installation.dispatch(redis_server.url))
        found = statuses(installation)
        return found["succeeded"] + found["dead"] == 51

    dispatchers = [installation.dispatch(redis_server.url)]
    until_sync(over, timeout_s=60, every_s=0.1)
    record = installation.record(poison)
    assert (record["status"], record["reason"]) == ("dead", "stalled")
    assert {installation.record(job_id)["status"] for job_id in ids} == {"succeeded"}
    assert [line[0] for line in installation.lines()].count("crash") == 4  # once, and max_stalls + 1 times more

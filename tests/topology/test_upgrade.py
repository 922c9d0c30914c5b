"""A rolling upgrade: old and new dispatchers side by side, then the new ones alone, and no job lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.installation import Installation, Process
from tests.servers import Server
from tests.waiting import until_sync

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    installation.configure(lease="1s", slots=2)
    try:
        yield installation
    finally:
        installation.close()


def newer(installation: Installation, server: Server, *, oldest: int) -> Process:
    """A dispatcher with the next schema, that lets versions from `oldest` on write beside it."""
    command = [sys.executable, "-m", "tests.topology.newer", "dispatch"]
    env = {"PYTHONPATH": str(ROOT), "NEWER_OLDEST": str(oldest), "GATEWAY_REDIS_URL": server.url}
    log = installation.folder / f"newer.{oldest}"
    process = Process(command, installation.folder, log, env)
    process.await_line("dispatcher started")
    return process


def submit(installation: Installation, count: int) -> list[str]:
    jobs: list[dict[str, Any]] = [{"target": "work", "payload": {"s": 0.02}} for _ in range(count)]
    return installation.submit_many(jobs)


def all_succeeded(installation: Installation, ids: list[str]) -> bool:
    return all(installation.record(job_id)["status"] == "succeeded" for job_id in ids)


def test_old_and_new_dispatchers_work_side_by_side_until_the_new_ones_write_what_old_ones_cannot(
    installation: Installation,
) -> None:
    with Server(extra=["--appendonly", "yes"]) as server:
        installation.serve(server.url)
        old = installation.dispatch(server.url)
        old.await_line("dispatcher started")
        beside = newer(installation, server, oldest=1)
        ids = submit(installation, 200)
        until_sync(lambda: all_succeeded(installation, ids), timeout_s=60, every_s=0.2)
        pids = {int(line[3]) for line in installation.lines() if line[0] == "start"}
        assert pids == {old.pid, beside.pid}, "only one of the two versions worked"
        # one that starts now is told to be upgraded, before it touches anything
        late = subprocess.run(
            [sys.executable, "-P", "-m", "gateway", "dispatch"],
            cwd=installation.folder,
            env={"PATH": "/usr/bin:/bin", "GATEWAY_REDIS_URL": server.url},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert late.returncode == os.EX_CONFIG
        assert "schema 2, this one knows 1" in late.stderr
        # now the new version writes what the old one cannot read: that one stops, and its jobs are taken over
        more = submit(installation, 100)
        last = newer(installation, server, oldest=2)
        assert old.wait(30) == os.EX_CONFIG
        with server.client() as client:
            prefix = "gw:{default:0}:"
            until_sync(lambda: client.zcard(f"{prefix}done") == len(ids) + len(more), timeout_s=60)
            assert (client.zcard(f"{prefix}leases"), client.zcard(f"{prefix}dead")) == (0, 0)
        for process in (beside, last):
            assert process.stop() == 0


def test_data_of_an_older_schema_is_taken_over(installation: Installation) -> None:
    with Server() as server:
        installation.serve(server.url)
        with server.client() as client:
            assert client.hget("gw:{default:0}:conf", "schema") == "1"
            newer(installation, server, oldest=1).stop()
            conf = client.hmget("gw:{default:0}:conf", "schema", "min_writer")
            assert conf == ["2", "1"]

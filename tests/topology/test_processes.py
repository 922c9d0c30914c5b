"""The real processes on a Cluster: gateway, dispatchers and commands, with several partitions, from end to end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.redis_url import CLUSTER_PARTITIONS
from tests.e2e.installation import Installation
from tests.groups import ClusterGroup
from tests.waiting import until_sync

pytestmark = pytest.mark.long

LIMITED = """
[targets.limited]
executor = "python"
callable = "tasks:work"
limit = { concurrency = 2, per_key = { concurrency = 1 } }

[schedules.often]
cron = "* * * * * *"
target = "limited"
payload = { s = 0 }
"""


@pytest.fixture
def installation(tmp_path: Path, namespace: str) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    installation.configure(more=LIMITED, lease="2s", namespace=namespace)
    try:
        yield installation
    finally:
        installation.close()


def test_jobs_schedules_and_listings_work_on_every_partition_and_through_the_loss_of_a_primary(
    cluster: ClusterGroup, installation: Installation, namespace: str
) -> None:
    installation.serve(cluster.url)
    dispatchers = [installation.dispatch(cluster.url) for _ in range(2)]
    for each in dispatchers:
        each.await_line("dispatcher started")
    jobs: list[dict[str, Any]] = [{"target": "work", "payload": {"s": 0}} for _ in range(100)]
    jobs += [{"target": "limited", "key": f"k{at % 3}", "payload": {"s": 0}} for at in range(20)]
    ids = installation.submit_many(jobs)
    assert {int(job_id[-2:], 16) for job_id in ids[:100]} == set(range(CLUSTER_PARTITIONS))
    assert len({job_id[-2:] for job_id in ids[100:]}) == 1, "a target with limits of its own lies in one partition"
    until_sync(lambda: finished(installation, ids))
    cluster.fail_over(cluster.owner(f"gw:{{{namespace}:0}}:"))
    until_sync(lambda: installation.client.get("/readyz").status_code == 200)
    job_id = installation.submit("limited", {"s": 0})
    assert installation.ended(job_id)["status"] == "succeeded"
    shown = installation.client.get("/schedules/often").json()
    until_sync(lambda: installation.client.get("/schedules/often").json()["fired"] > shown["fired"] + 1)
    assert not [each for each in dispatchers if each.ended]
    listed = installation.client.get("/jobs", params={"target": "work", "limit": 100}).json()["jobs"]
    assert {each["job_id"] for each in listed} == set(ids[:100])
    assert "16 partitions" in command(cluster, installation, "doctor")
    key = command(cluster, installation, "apikeys", "create", "laptop").strip()
    answer = installation.client.get(f"/jobs/{job_id}", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200


def finished(installation: Installation, ids: list[str]) -> bool:
    return all(installation.record(job_id)["status"] == "succeeded" for job_id in ids)


def command(cluster: ClusterGroup, installation: Installation, *arguments: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gateway", *arguments],
        cwd=installation.folder,
        env={"PATH": "/usr/bin:/bin", "GATEWAY_REDIS_URL": cluster.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout

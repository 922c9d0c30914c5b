"""Lanes over the API: their depths, and pausing one."""

from __future__ import annotations

from gateway.store import Worker
from tests.api.running import Running


def _worker(api: Running) -> Worker:
    store = api.store
    return Worker(store.client, store.keyspaces[0], "by-hand", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)


async def _states(api: Running) -> dict[str, tuple[int, bool]]:
    lanes = (await api.client.get("/lanes")).json()["lanes"]
    return {each["lane"]: (each["pending"], each["paused"]) for each in lanes}


async def test_jobs_of_a_paused_lane_wait_and_those_of_others_do_not(api: Running) -> None:
    for lane in ("critical", "low"):
        answer = await api.client.post("/jobs", json={"target": "echo", "lane": lane})
        assert answer.status_code == 202
    assert (await api.client.post("/lanes/critical/pause")).status_code == 200
    assert await _states(api) == {"critical": (1, True), "default": (0, False), "low": (1, False)}
    worker = _worker(api)
    claimed = (await worker.exchange([], worker.next_claim(10, suspects=True))).claimed
    assert [job.lane for job in claimed] == ["low"]
    (waiting,) = (await api.client.get("/jobs?status=pending")).json()["jobs"]
    assert (waiting["lane"], waiting["waiting_on"]) == ("critical", "lane")
    assert (await api.client.post("/lanes/critical/resume")).status_code == 200
    claimed = (await worker.exchange([], worker.next_claim(10, suspects=True))).claimed
    assert [job.lane for job in claimed] == ["critical"]


async def test_lane_that_never_was_cannot_be_paused(api: Running) -> None:
    answer = await api.client.post("/lanes/urgent/pause")
    assert answer.status_code == 404
    assert "critical" in answer.json()["detail"]

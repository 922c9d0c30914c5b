"""Purging dead jobs over the API, and the installation in figures."""

from __future__ import annotations

import msgspec
import pytest

from gateway.api import models
from tests.api.running import Running
from tests.api.test_replays import dead


async def test_dead_job_is_purged_once(api: Running) -> None:
    ids = await dead(api, 2)
    assert (await api.client.delete(f"/dlq/{ids[0]}")).status_code == 204
    assert (await api.client.delete(f"/dlq/{ids[0]}")).status_code == 404
    assert (await api.client.get(f"/jobs/{ids[0]}")).status_code == 404
    await api.client.post(f"/dlq/{ids[1]}/retry")
    assert (await api.client.delete(f"/dlq/{ids[1]}")).status_code == 409


async def test_dead_jobs_are_purged_by_filter(api: Running) -> None:
    await dead(api, 3)
    answer = await api.client.post("/dlq/purge", json={"filter": {"reason": "stalled"}})
    assert msgspec.json.decode(answer.content, type=models.Purged) == models.Purged(purged=0, next_cursor=None)
    answer = await api.client.post(
        "/dlq/purge", json={"filter": {"target": "echo", "dead_before": "2100-01-01T00:00:00Z"}}
    )
    assert answer.json() == {"purged": 3, "next_cursor": None}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/filter"),
        ({"filter": {"target": "~"}}, "/filter/target"),
        ({"filter": {"reason": "bored"}}, "/filter/reason"),
        ({"filter": {}, "cursor": "x"}, "/cursor"),
        ({"filter": {}, "rate": "1/s"}, "/rate"),
    ],
)
async def test_purge_that_is_not_understood_takes_nothing(api: Running, body: object, pointer: str) -> None:
    await dead(api, 1)
    answer = await api.client.post("/dlq/purge", json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert (await api.store.inspect()).dead == 1


async def test_stats_count_what_is_and_what_was(api: Running) -> None:
    await dead(api, 2)
    for target in ("echo", "resize"):
        await api.client.post("/jobs", json={"target": target})
    await api.client.post("/targets/resize/pause")
    answer = await api.client.get("/stats")
    stats = msgspec.json.decode(answer.content, type=models.Stats)
    assert [(lane.lane, lane.pending) for lane in stats.lanes] == [("critical", 0), ("default", 1), ("low", 1)]
    assert (stats.dead, stats.running, stats.due, stats.finished) == (2, 0, 0, 0)
    assert (stats.events["submitted"], stats.events["dead"]) == (4, 2)
    echo, resize = stats.targets
    assert (echo.target, echo.events["submitted"], echo.events["dead"], echo.pending, echo.paused) == (
        *("echo", 3, 2, 1),
        False,
    )
    assert (resize.target, resize.events, resize.paused, resize.blocked) == ("resize", {"submitted": 1}, True, "paused")

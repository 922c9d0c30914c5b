"""Bulk replays over the API, carried on by a dispatcher's loop."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from gateway.api import models
from gateway.dispatch.replays import carry_replays
from gateway.jobs import Settlement
from tests.api.running import Running, claim
from tests.waiting import until


async def dead(api: Running, count: int, **fields: Any) -> list[str]:
    """Jobs that failed for good."""
    for _ in range(count):
        assert (await api.client.post("/jobs", json={"target": "echo"} | fields)).status_code == 202
    worker, ids, tokens = await claim(api.store)
    await worker.exchange([Settlement(*each, "dead", reason="fatal") for each in zip(ids, tokens, strict=True)], None)
    return ids


async def started(api: Running, **body: Any) -> str:
    answer = await api.client.post("/dlq/retry", json={"filter": {}} | body)
    assert answer.status_code == 202, answer.text
    return msgspec.json.decode(answer.content, type=models.ReplayStarted).replay_id


async def progress(api: Running, replay_id: str) -> models.ReplayState:
    answer = await api.client.get(f"/replays/{replay_id}")
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=models.ReplayState)


async def carried(api: Running, replay_id: str) -> models.ReplayState:
    """What became of a replay that a dispatcher carried to its end."""
    loop = asyncio.create_task(carry_replays(api.store, idle_s=0.02, rng=random.Random(1)))
    try:

        async def over() -> bool:
            return (await progress(api, replay_id)).state != "running"

        await until(over)
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
    return await progress(api, replay_id)


async def test_dead_jobs_go_back_and_the_progress_tells(api: Running) -> None:
    ids = await dead(api, 7)
    other = await dead(api, 2, target="resize")
    replay_id = await started(
        api, filter={"target": "echo", "reason": "fatal"}, rate="1000/s", limit=5, overrides={"max_attempts": 9}
    )
    assert (await progress(api, replay_id)).replayed == 0
    state = await carried(api, replay_id)
    assert (state.state, state.matched, state.replayed, state.skipped) == ("done", 5, 5, 0)
    assert (state.filter.target, state.rate, state.limit) == ("echo", "1000/s", 5)
    assert state.overrides is not None
    assert state.overrides.max_attempts == 9
    _, back, _ = await claim(api.store)
    assert len(back) == 5
    assert set(back) <= set(ids)
    assert (await api.client.get(f"/jobs/{back[0]}")).json()["max_attempts"] == 9
    assert (await api.client.get(f"/jobs/{other[0]}")).json()["status"] == "dead"


async def test_replay_takes_its_time_when_it_has_a_rate(api: Running) -> None:
    await dead(api, 30)
    clock = asyncio.get_running_loop().time
    began_s = clock()
    assert (await carried(api, await started(api, rate="50/s"))).replayed == 30
    assert clock() - began_s >= 0.48  # five at once, then one each 20 ms


async def test_replay_stops_when_it_is_deleted(api: Running) -> None:
    await dead(api, 5)
    replay_id = await started(api, rate="1/h")
    loop = asyncio.create_task(carry_replays(api.store, idle_s=0.02, rng=random.Random(1)))

    async def begun() -> bool:
        return (await progress(api, replay_id)).replayed == 1

    await until(begun)
    answer = await api.client.delete(f"/replays/{replay_id}")
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    assert answer.status_code == 200
    state = msgspec.json.decode(answer.content, type=models.ReplayState)
    assert (state.state, state.replayed) == ("stopped", 1)
    assert len((await api.client.get("/dlq")).json()["jobs"]) == 4
    assert (await api.client.delete(f"/replays/{replay_id}")).json()["state"] == "stopped"


async def test_replay_of_times_past_matches_nothing(api: Running) -> None:
    await dead(api, 1)
    replay_id = await started(api, filter={"dead_after": "2020-01-01T00:00:00Z", "dead_before": 1_600_000_000})
    state = await carried(api, replay_id)
    assert (state.matched, state.replayed) == (0, 0)
    assert state.filter.dead_before is not None
    assert state.filter.dead_before.year == 2020


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/filter"]),
        ({"filter": 1}, ["/filter"]),
        ({"filter": {"targt": "x"}, "rate": "fast"}, ["/filter/targt", "/rate"]),
        ({"filter": {"reason": "tired", "target": "a b"}, "limit": 0}, ["/filter/reason", "/filter/target", "/limit"]),
        ({"filter": {"dead_after": "yesterday"}}, ["/filter/dead_after"]),
        ({"filter": {"dead_after": 1e18}}, ["/filter/dead_after"]),
        ({"filter": {"dead_after": 20, "dead_before": 10}}, ["/filter/dead_before"]),
        ({"filter": {}, "overrides": {"max_attempts": 0}}, ["/overrides/max_attempts"]),
        ({"filter": {}, "overrides": {"url": "https://example.com"}}, ["/overrides/url"]),
        ({"filter": {}, "rate": "0/s"}, ["/rate"]),
    ],
)
async def test_replay_is_422_with_every_fault_when_its_body_is_wrong(
    api: Running, body: Any, pointers: list[str]
) -> None:
    answer = await api.client.post("/dlq/retry", json=body)
    assert answer.status_code == 422, answer.text
    assert sorted(fault["pointer"] for fault in answer.json()["errors"]) == pointers


async def test_replay_is_400_415_404_or_409_when_it_cannot_be(api: Running) -> None:
    assert (await api.client.post("/dlq/retry", content=b"{")).status_code == 400
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert (await api.client.post("/dlq/retry", content=b"a=b", headers=form)).status_code == 415
    assert (await api.client.get("/replays/nonsense")).status_code == 404
    assert (await api.client.delete("/replays/0123456789abcdef")).status_code == 404
    replay_id = await started(api)
    await carried(api, replay_id)
    assert (await api.client.delete(f"/replays/{replay_id}")).status_code == 409


async def test_one_dead_job_goes_back_with_other_attempts_when_asked(api: Running) -> None:
    job_id = (await dead(api, 1, max_attempts=1))[0]
    path = f"/dlq/{job_id}/retry"
    wrong = await api.client.post(path, json={"overrides": {"url": "https://example.com"}})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/overrides/url")
    answer = await api.client.post(path, json={"overrides": {"max_attempts": 4}})
    assert (answer.status_code, answer.json()["max_attempts"], answer.json()["status"]) == (200, 4, "pending")

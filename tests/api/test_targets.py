"""Targets: their state, pausing them, and what holds their jobs back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.api import models
from gateway.jobs import Settlement
from tests.api.limited import limited_gateway, submit
from tests.api.running import Running, claim


@pytest.fixture(params=["one", "cluster"])
async def api(request: pytest.FixtureRequest, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with limited_gateway(request, namespace, tmp_path) as gateway:
        yield gateway


async def claim_all(api: Running) -> dict[str, tuple[Any, str]]:
    """Claims in every partition: worker and token by job id."""
    found: dict[str, tuple[Any, str]] = {}
    for partition in range(api.store.partitions):
        worker, ids, tokens = await claim(api.store, partition)
        found |= {job_id: (worker, token) for job_id, token in zip(ids, tokens, strict=True)}
    return found


async def target(api: Running, name: str) -> models.TargetShown:
    answer = await api.client.get(f"/targets/{name}")
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=models.TargetShown)


async def waiting_on(api: Running, job_id: str) -> str | None:
    record = msgspec.json.decode((await api.client.get(f"/jobs/{job_id}")).content, type=models.JobRecord)
    assert record.status == "pending"
    return record.waiting_on


async def test_target_shows_its_limits_and_how_it_stands(api: Running) -> None:
    shown = await target(api, "slow")
    assert shown.limits is not None
    assert (shown.limits.rate, shown.limits.burst, shown.lane) == ("1/h", 1, "low")
    assert shown.limits.per_key is not None
    assert (shown.limits.per_key.rate, shown.limits.per_key.concurrency) == ("2/d", 3)
    assert (shown.paused, shown.pending, shown.running, shown.blocked) == (False, {}, 0, None)
    assert shown.retry is not None
    assert (shown.retry.max_attempts, shown.retry.base, shown.retry.gives_up_after) == (5, 1.0, 17.0)
    for _ in range(3):
        await submit(api, "slow")
    await submit(api, "slow", lane="critical")
    await claim_all(api)
    shown = await target(api, "slow")
    assert (shown.pending, shown.running, shown.blocked) == ({"low": 3}, 1, "rate")
    plain = await target(api, "echo")
    assert (plain.running, plain.limits, plain.ordered) == (None, None, False)
    assert (plain.timeout, plain.breaker) == (60.0, None)
    called = await api.client.put("/targets/called", json={"executor": "http", "url": "http://localhost.example/"})
    assert called.json()["breaker"] == {"ratio": 0.7, "minimum": 20, "window": 30.0, "pause": 5.0, "cap": 300.0}
    await api.client.delete("/targets/called")
    assert (await target(api, "ledger")).ordered
    listed = msgspec.json.decode((await api.client.get("/targets")).content, type=models.Targets).targets
    assert [each.name for each in listed] == ["account", "daily", "echo", "ledger", "resize", "single", "slow"]
    assert shown in listed


@pytest.mark.parametrize("name", ["single", "echo"])
async def test_paused_target_starts_no_job_until_it_is_resumed(api: Running, name: str) -> None:
    before = [await submit(api, name) for _ in range(3)]
    paused = msgspec.json.decode((await api.client.post(f"/targets/{name}/pause")).content, type=models.TargetShown)
    assert (paused.name, paused.paused, paused.blocked) == (name, True, "paused")
    after = [await submit(api, name) for _ in range(3)]
    other = await submit(api, "resize")
    assert set(await claim_all(api)) == {other}
    assert {await waiting_on(api, job_id) for job_id in (*before, *after)} == {"paused"}
    assert (await target(api, name)).pending == {"default": 6}
    assert (await api.client.post(f"/targets/{name}/pause")).status_code == 200
    resumed = msgspec.json.decode((await api.client.post(f"/targets/{name}/resume")).content, type=models.TargetShown)
    assert (resumed.paused, resumed.blocked) == (False, None)
    started: list[str] = []
    while claimed := await claim_all(api):
        started += claimed
        for job_id, (worker, token) in claimed.items():
            await worker.exchange([Settlement(job_id, token, "succeeded")], None)
    assert sorted(started) == sorted([*before, *after])


async def test_pause_outlives_a_restart_of_the_gateway(api: Running) -> None:
    await api.client.post("/targets/single/pause")
    await api.store.configure()  # what a process does when it starts
    assert (await target(api, "single")).paused


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("single", {}, "concurrency"),
        ("slow", {}, "rate"),
        ("daily", {}, "quota"),
        ("account", {"key": "a"}, "key"),
        ("ledger", {"key": "a"}, "key"),
    ],
)
async def test_record_says_what_holds_a_pending_job_back(
    api: Running, name: str, fields: dict[str, str], reason: str
) -> None:
    first, second = await submit(api, name, **fields), await submit(api, name, **fields)
    assert await waiting_on(api, first) is None
    assert set(await claim_all(api)) == {first}
    assert await waiting_on(api, second) == reason
    jobs = (await api.client.get("/jobs?status=pending")).json()["jobs"]
    assert [(job["job_id"], job["waiting_on"]) for job in jobs] == [(second, reason)]
    assert "waiting_on" not in (await api.client.get(f"/jobs/{first}")).json()


async def test_record_says_that_a_key_waits_for_its_retry(api: Running) -> None:
    first, second = await submit(api, "ledger", key="a"), await submit(api, "ledger", key="a")
    free = await submit(api, "ledger", key="b")
    claimed = await claim_all(api)
    assert set(claimed) == {first, free}
    worker, token = claimed[first]
    await worker.exchange([Settlement(first, token, "retry", delay_ms=60_000)], None)
    assert await waiting_on(api, second) == "key"
    assert await waiting_on(api, await submit(api, "ledger", key="c")) is None


async def test_looking_changes_nothing(api: Running) -> None:
    jobs = [await submit(api, "slow", key="a") for _ in range(2)]
    client: Any = api.store.client
    keys = [f"{keyspace.prefix}ft:slow" for keyspace in api.store.keyspaces]
    before = [await client.hgetall(key) for key in keys]
    for job_id in jobs:
        await waiting_on(api, job_id)
    await target(api, "slow")
    assert [await client.hgetall(key) for key in keys] == before
    assert len(await claim_all(api)) == 1


async def test_metrics_tell_what_waits_and_why(api: Running) -> None:
    for _ in range(3):
        await submit(api, "single")
    await submit(api, "echo")
    await claim_all(api)
    text = (await api.client.get("/metrics")).text
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("gateway_target")
    }
    assert found["gateway_target_waiting", "single"] == 2
    assert found["gateway_target_waiting", "echo"] == 0
    assert found["gateway_target_waiting", "gateway.callback"] == 0
    assert {labels: value for labels, value in found.items() if labels[0] == "gateway_target_blocked"} == {
        ("gateway_target_blocked", "concurrency", "single"): 1
    }


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/pause"), ("POST", "/resume")])
async def test_target_is_404_when_there_is_none_of_that_name(api: Running, method: str, path: str) -> None:
    answer = await api.client.request(method, f"/targets/sngle{path}")
    assert answer.status_code == 404
    assert "sngle" in answer.json()["detail"]


OVERTAKING = {"lane": "low", "priority": 5, "delay": "1s", "run_at": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize("field", OVERTAKING)
async def test_job_of_an_ordered_target_is_refused_where_it_would_change_its_turn(api: Running, field: str) -> None:
    body = {"target": "ledger", "key": "k", field: OVERTAKING[field]}
    answer = await api.client.post("/jobs", json=body)
    assert answer.status_code == 422, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [f"/{field}"]
    assert "ordered" in answer.json()["errors"][0]["detail"]
    assert (await api.client.post("/jobs", json=body | {field: None})).status_code == 202


async def test_schedule_and_route_of_an_ordered_target_leave_its_order_alone(api: Running) -> None:
    schedule = {"cron": "@daily", "target": "ledger", "lane": "low", "priority": 1}
    answer = await api.client.put("/schedules/s", json=schedule)
    assert answer.status_code == 422, answer.text
    assert sorted(fault["pointer"] for fault in answer.json()["errors"]) == ["/lane", "/priority"]
    for field, value in (("lane", "low"), ("delay", "1s")):
        trigger = {"verifier": "none", "accept_unverified": True, "routes": [{"target": "ledger", field: value}]}
        answer = await api.client.put("/triggers/t", json=trigger)
        assert answer.status_code == 422, answer.text
        assert f"routes[0].{field}" in answer.text or f"/routes/0/{field}" in answer.text

"""A disabled target, as it is shown, and as it is enabled with what died meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.jobs import GONE, Settlement
from tests.api.running import Running, claim, running, settings_for
from tests.servers import Server


@pytest.fixture
async def api(tmp_path: Path, valkey_server: Server, namespace: str) -> AsyncIterator[Running]:
    async with running(settings_for(tmp_path, valkey_server.url, namespace)) as api:
        await api.client.put("/targets/t", json={"executor": "http", "url": "https://a.example/"})
        yield api


async def disable(api: Running) -> str:
    """A job answered 410: its id."""
    job_id = (await api.client.post("/jobs", json={"target": "t"})).json()["job_id"]
    worker, ids, tokens = await claim(api.store)
    assert ids == [job_id]
    await worker.exchange([Settlement(job_id, tokens[0], "dead", reason=GONE, error='{"type":"status"}')], None)
    return str(job_id)


async def test_disabled_target_is_shown_and_enabled(api: Running) -> None:
    await disable(api)
    waiting = (await api.client.post("/jobs", json={"target": "t"})).json()["job_id"]
    assert (await api.client.get(f"/jobs/{waiting}")).json()["waiting_on"] == "disabled"
    shown = (await api.client.get("/targets/t")).json()
    assert (shown["paused"], shown["blocked"]) == (True, "disabled")
    assert shown["disabled_at"].endswith("Z")
    shown = (await api.client.post("/targets/t/enable")).json()
    assert shown["paused"] is False
    assert {"blocked", "disabled_at", "replay_id"} & shown.keys() == set()
    assert (await claim(api.store))[1] == [waiting]


async def test_what_died_meanwhile_is_sent_back_if_wanted(api: Running) -> None:
    job_id = await disable(api)
    answer = await api.client.post("/targets/t/enable", json={"replay": True, "rate": "5/s"})
    replay = (await api.client.get(f"/replays/{answer.json()['replay_id']}")).json()
    record = (await api.client.get(f"/jobs/{job_id}")).json()
    assert (replay["filter"]["target"], replay["rate"]) == ("t", "5/s")
    assert replay["filter"]["dead_after"] <= record["updated_at"]
    assert (await api.client.post("/targets/t/enable", json={"replay": True})).json().get("replay_id") is None
    assert (await api.client.post("/targets/t/enable", json={"reply": True})).status_code == 422

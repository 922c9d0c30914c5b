"""Triggers registered over the API: defined, used, shown without their secrets, replaced, deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.api import models, sources
from tests.api.running import Running, running
from tests.api.triggered import TOKEN, triggered_settings
from tests.servers import Server

BODY: dict[str, Any] = {
    "verifier": "api-key",
    "secrets": ["the-key"],
    "header": "X-Own",
    "routes": [{"target": "echo", "when": "body.n > `1`", "lane": "critical"}],
    "limit": {"rate": "100/s", "burst": 5},
}


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(triggered_settings(tmp_path, valkey_server.url, namespace)) as gateway:
        yield gateway


async def test_registered_trigger_takes_deliveries_at_once(api: Running) -> None:
    assert (await api.client.post("/hooks/shop", content=b"{}")).status_code == 404
    answer = await api.client.put("/triggers/shop", json=BODY)
    assert answer.status_code == 201, answer.text
    shown = msgspec.json.decode(answer.content, type=models.TriggerShown)
    assert (shown.source, shown.secrets, shown.config) == ("api", 1, {"header": "X-Own"})
    assert shown.routes == BODY["routes"]
    assert "the-key" not in answer.text
    taken = await api.client.post("/hooks/shop", content=b'{"n":2}', headers={"X-Own": "the-key"})
    assert taken.status_code == 202
    assert (await api.store.find(taken.json()["jobs"][0]["job_id"])).record.lane == "critical"
    assert (await api.client.post("/hooks/shop", content=b'{"n":2}', headers={"X-Own": "other"})).status_code == 401


async def test_trigger_is_answered_with_a_warning_when_nobody_knows_its_signed_url(api: Running) -> None:
    body = {"verifier": "twilio", "secrets": ["t"], "routes": [{"target": "echo"}]}
    answer = await api.client.put("/triggers/sms", json=body)
    assert answer.status_code == 201
    assert "set public_url in [gateway]" in answer.json()["warning"]
    assert (await api.client.get("/triggers/sms")).json()["warning"] == answer.json()["warning"]
    told = await api.client.put("/triggers/sms", json=body | {"url": "https://hooks.example/sms"})
    assert (told.status_code, "warning" in told.json()) == (200, False)


async def test_replaced_trigger_forgets_its_old_secret_and_a_deleted_one_is_gone(api: Running) -> None:
    await api.client.put("/triggers/shop", json=BODY)
    before = (await api.client.get("/triggers/shop")).json()
    answer = await api.client.put("/triggers/shop", json=BODY | {"secrets": ["new-key"]})
    assert answer.status_code == 200
    assert answer.json()["created_at"] == before["created_at"]
    statuses = [
        (await api.client.post("/hooks/shop", content=b'{"n":2}', headers={"X-Own": key})).status_code
        for key in ("the-key", "new-key")
    ]
    assert statuses == [401, 202]
    assert (await api.client.delete("/triggers/shop")).status_code == 204
    assert (await api.client.post("/hooks/shop", content=b"{}", headers={"X-Own": "new-key"})).status_code == 404
    assert (await api.client.delete("/triggers/shop")).status_code == 404
    assert (await api.client.get("/triggers/shop")).status_code == 404


async def test_another_gateway_knows_of_it_within_seconds(
    api: Running, valkey_server: Server, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BELIEVED_S", 0.0)
    async with running(triggered_settings(tmp_path, valkey_server.url, namespace)) as other:
        assert (await other.client.post("/hooks/shop", content=b"{}")).status_code == 404
        await api.client.put("/triggers/shop", json=BODY)
        answer = await other.client.post("/hooks/shop", content=b'{"n":2}', headers={"X-Own": "the-key"})
        assert answer.status_code == 202


async def test_name_of_the_file_is_409_and_both_kinds_are_listed(api: Running) -> None:
    assert (await api.client.put("/triggers/github", json=BODY)).status_code == 409
    assert (await api.client.delete("/triggers/github")).status_code == 409
    await api.client.put("/triggers/shop", json=BODY)
    answer = await api.client.get("/triggers")
    listed = msgspec.json.decode(answer.content, type=models.Triggers).triggers
    found = {each.name: each for each in listed}
    assert list(found) == sorted(found)
    assert (found["github"].source, found["shop"].source) == ("file", "api")
    assert (found["github"].secrets, found["github"].body_limit) == (1, 30000)
    assert found["custom"].response == {
        "status": 201,
        "body": "<Response/>",
        "content_type": "text/xml",
    }
    for secret in ("the-secret", "the-key", TOKEN):
        assert secret not in answer.text


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (BODY | {"verifier": "nothing"}, "/verifier", 'no verifier named "nothing"'),
        (BODY | {"secrets": []}, "", "at least one secret"),
        (BODY | {"secrets": [{"env": "PATH"}]}, "/secrets", "only the configuration file"),
        (BODY | {"routes": [{"target": "nothing"}]}, "/routes/0/target", "no target named"),
        (BODY | {"routes": [{"target": "echo", "when": "bod.x"}]}, "/routes/0/when", "no 'bod' here"),
        (BODY | {"routes": []}, "/routes", "needs a route"),
        (BODY | {"heder": "x"}, "", 'unknown key "heder"'),
        (BODY | {"allow_from": ["10.0.0.1/8"]}, "", "allow_from: '10.0.0.1/8' is no network"),
        (BODY | {"limit": {"rate": "often"}}, "/limit/rate", "not a rate"),
        (BODY | {"sync_timeout": "2h"}, "", "sync_timeout"),
        (BODY | {"response": {"status": 204, "body": "hello"}}, "/response", "status 204 has no body; leave body out"),
        (BODY | {"response": {"status": 205, "body": "hello"}}, "/response", "or write status = 200"),
        (BODY | {"sync": True, "response": {"status": 204}}, "", "response: status 204 has no body, so that sync"),
        ({"verifier": "stripe", "routes": BODY["routes"]}, "", "secrets"),
        ({"verifier": "none", "routes": BODY["routes"], "secrets": ["x"]}, "", "unknown key"),
    ],
)
async def test_fault_is_422_and_named_by_its_place(
    api: Running, body: dict[str, Any], pointer: str, detail: str
) -> None:
    answer = await api.client.put("/triggers/shop", json=body)
    assert answer.status_code == 422, answer.text
    fault = answer.json()["errors"][0]
    assert fault["pointer"].startswith(pointer)
    assert detail in fault["detail"]
    assert "the-key" not in answer.text
    assert (await api.client.get("/triggers/shop")).status_code == 404


@pytest.mark.parametrize(("content", "status"), [(b"{", 400), (b"[]", 422), (b'{"a":' * 100, 400), (b"\xff", 400)])
async def test_body_that_is_no_object_is_refused(api: Running, content: bytes, status: int) -> None:
    headers = {"content-type": "application/json"}
    assert (await api.client.put("/triggers/shop", content=content, headers=headers)).status_code == status


async def test_name_that_cannot_be_one_is_refused(api: Running) -> None:
    assert (await api.client.put("/triggers/a%20b", json=BODY)).status_code == 422
    assert (await api.client.post("/hooks/a%20b", content=b"")).status_code == 404


async def test_trigger_that_fits_no_more_is_503_and_can_be_seen_and_deleted(
    api: Running, valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    await api.client.put("/triggers/shop", json=BODY)
    settings = triggered_settings(tmp_path, valkey_server.url, namespace)
    text = (tmp_path / "gateway.toml").read_text().replace("echo", "renamed")
    (tmp_path / "gateway.toml").write_text(text)
    settings = type(settings)(**{**msgspec.structs.asdict(settings), "targets": {}, "triggers": {}})
    async with running(settings) as other:
        answer = await other.client.post("/hooks/shop", content=b"{}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
        assert 'no target named "echo"' in (await other.client.get("/triggers/shop")).json()["fault"]
        assert (await other.client.delete("/triggers/shop")).status_code == 204

"""Handshakes and CloudEvents over real sockets, as senders do them."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.settings import load
from tests.api.running import Running, running
from tests.api.test_hooks import samples
from tests.api.triggered import noted
from tests.servers import Server

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
VERIFIERS: dict[str, dict[str, Any]] = {
    "slack": {"secrets": ["s"]},
    "zoom": {"secrets": ["s"]},
    "discord": {"secrets": [KEY.public_key().public_bytes_raw().hex()]},
    "meta": {"secrets": ["s"], "verify_token": "let me in"},
    "dropbox": {"secrets": ["s"]},
    "x": {"secrets": ["s"]},
    "okta": {"secrets": ["s"]},
    "intercom": {"secrets": ["s"]},
    "cloudevents": {"secrets": ["a-token"], "allowed_origins": ["events.example"], "allowed_rate": 60},
}
EVENT = {"specversion": "1.0", "source": "/shop", "type": "order.paid"}


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    text = ['[targets.echo]\nexecutor = "python"\ncallable = "json:dumps"']
    for name, config in VERIFIERS.items():
        text += [f'[triggers.{name}]\nverifier = "{name}"']
        text += [f"{key} = {json.dumps(value)}" for key, value in config.items()]
        text += [f'[[triggers.{name}.routes]]\ntarget = "echo"']
    (tmp_path / "gateway.toml").write_text("\n".join(text))
    environ = {"GATEWAY_REDIS_URL": valkey_server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    async with running(load(environ, tmp_path)) as gateway:
        yield gateway


def signed(prefix: str, body: bytes) -> tuple[str, str]:
    """The time, and the signature of `v0:{time}:` and the body."""
    at = str(int(time.time()))
    return at, prefix + hmac.digest(b"s", f"v0:{at}:".encode() + body, hashlib.sha256).hex()


async def test_signed_questions_are_answered_and_make_no_job(api: Running) -> None:
    body = b'{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd"}'
    at, signature = signed("v0=", body)
    headers = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature}
    answer = await api.client.post("/hooks/slack", content=body, headers=headers)
    assert (answer.status_code, answer.text) == (200, "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await api.client.post("/hooks/slack", content=body)).status_code == 401

    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}'
    at, signature = signed("v0=", body)
    headers = {"x-zm-request-timestamp": at, "x-zm-signature": signature}
    answer = await api.client.post("/hooks/zoom", content=body, headers=headers)
    made = hmac.digest(b"s", b"abc", hashlib.sha256).hex()
    assert answer.json() == {"plainToken": "abc", "encryptedToken": made}
    assert await api.queued() == 0
    assert await samples(api, "gateway_deliveries_total") == {
        ("slack", "handshake"): 1, ("slack", "rejected"): 1, ("zoom", "handshake"): 1,
    }  # fmt: skip


async def test_handshakes_are_listed_as_such_and_not_replayed(api: Running) -> None:
    await api.client.get("/hooks/meta?hub.mode=subscribe&hub.verify_token=let%20me%20in&hub.challenge=115")
    shake = (await noted(api, "meta", 1))[0]
    path = "/hooks/meta?hub.mode=subscribe&hub.verify_token=***&hub.challenge=115"
    assert (shake["verdict"], shake["method"], shake["path"], shake["jobs"]) == ("handshake", "GET", path, [])
    answer = await api.client.post(f"/triggers/meta/deliveries/{shake['id']}/replay")
    assert (answer.status_code, answer.json()["detail"]) == (409, "it was a handshake, which no route ever sees")
    at = str(int(time.time()))
    headers = {"X-Signature-Timestamp": at, "X-Signature-Ed25519": KEY.sign(at.encode() + b'{"type":1}').hex()}
    await api.client.post("/hooks/discord", content=b'{"type":1}', headers=headers)
    assert [each["verdict"] for each in await noted(api, "discord", 1)] == ["handshake"]


@pytest.mark.parametrize(
    ("body", "status", "answer"),
    [(b'{"type":1}', 200, b'{"type":1}'), (b'{"version":1,"application_id":"1","type":0}', 204, b"")],
)
async def test_discord_gets_its_pong_and_its_probe_a_401(api: Running, body: bytes, status: int, answer: bytes) -> None:
    at = str(int(time.time()))
    headers = {"X-Signature-Timestamp": at, "X-Signature-Ed25519": KEY.sign(at.encode() + body).hex()}
    found = await api.client.post("/hooks/discord", content=body, headers=headers)
    assert (found.status_code, found.content) == (status, answer)
    headers["X-Signature-Ed25519"] = "0" * 128
    assert (await api.client.post("/hooks/discord", content=body, headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "text"),
    [
        ("GET", "meta?hub.mode=subscribe&hub.verify_token=let%20me%20in&hub.challenge=115", {}, 200, "115"),
        ("GET", "meta?hub.mode=subscribe&hub.verify_token=wrong&hub.challenge=115", {}, 401, None),
        ("GET", "meta?hub.mode=subscribe&hub.verify_token=let%20me%20in&hub.challenge=%3Cscript%3E", {}, 401, None),
        ("GET", "dropbox?challenge=abc-1", {}, 200, "abc-1"),
        ("GET", "dropbox?challenge=%3Cimg%3E", {}, 401, None),
        ("GET", "okta", {"x-okta-verification-challenge": "abc"}, 200, '{"verification":"abc"}'),
        ("HEAD", "intercom", {}, 200, ""),
        ("GET", "slack", {}, 401, None),
    ],
)
async def test_questions_without_a_signature_are_answered_or_refused(
    api: Running, method: str, path: str, headers: dict[str, str], status: int, text: str | None
) -> None:
    answer = await api.client.request(method, f"/hooks/{path}", headers=headers)
    assert answer.status_code == status
    if text is not None:
        assert answer.text == text
    else:
        assert "script" not in answer.text
        assert "img" not in answer.text


async def test_sender_of_cloudevents_is_let_in_by_options(api: Running) -> None:
    async def ask(origin: str) -> httpx.Headers:
        answer = await api.client.request("OPTIONS", "/hooks/cloudevents", headers={"WebHook-Request-Origin": origin})
        assert answer.status_code == 200
        return answer.headers

    granted = await ask("events.example")
    assert (granted["webhook-allowed-origin"], granted["webhook-allowed-rate"]) == ("events.example", "60")
    assert "webhook-allowed-origin" not in await ask("evil.example")


async def test_batch_of_cloudevents_makes_a_job_of_each_event_once(api: Running) -> None:
    headers = {"Authorization": "Bearer a-token", "Content-Type": "application/cloudevents-batch+json"}
    events: list[dict[str, Any]] = [EVENT | {"id": f"e-{at}", "data": {"n": at}} for at in range(3)]
    answer = await api.client.post("/hooks/cloudevents", content=json.dumps(events), headers=headers)
    assert answer.status_code == 202
    ids = [job["job_id"] for job in answer.json()["jobs"]]
    payloads = [found.record.payload for found in await api.store.find_many(ids) if found]
    assert payloads == [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}']
    more = [*events[1:], EVENT | {"id": "e-9", "data": {"n": 9}}]
    again = await api.client.post("/hooks/cloudevents", content=json.dumps(more), headers=headers)
    assert [job["job_id"] for job in again.json()["jobs"]][:2] == ids[1:]
    assert await api.queued() == 4
    single = {f"ce-{name}": value for name, value in EVENT.items()} | {"ce-id": "e-0"}
    binary = {"Authorization": "Bearer a-token", "Content-Type": "application/json"} | single
    same = await api.client.post("/hooks/cloudevents", content=b'{"n": 0}', headers=binary)
    assert (same.json()["jobs"][0]["job_id"], same.json()["duplicate"]) == (ids[0], True)
    plain = await api.client.post("/hooks/cloudevents", content=b"{}", headers={"Authorization": "Bearer a-token"})
    assert plain.status_code == 415

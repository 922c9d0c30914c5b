"""A test request to a target: signed, marked, shown without secrets, and never past the egress guard."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from gateway.client import verify_callback
from gateway.egress.client import EgressClient
from tests.api.running import Running, running, settings_for
from tests.egress.receiver import Receiver, always, answer
from tests.egress.spellings import DENIED, loopback
from tests.servers import Server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def api(tmp_path: Path, valkey_server: Server, namespace: str) -> AsyncIterator[Running]:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_EGRESS_ALLOW="127.0.0.1")
    async with running(settings) as api:
        yield api


async def probe(api: Running, url: str, *, body: Any = None, **config: Any) -> dict[str, Any]:
    made = await api.client.put("/targets/t", json={"executor": "http", "url": url, **config})
    assert made.status_code in (200, 201), made.text
    answer = await api.client.post("/targets/t/test", json=body or {})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_probe_is_one_signed_request_and_no_job(api: Running) -> None:
    async with Receiver(always(answer("201 X", b'{"ok":1}', "X-A: 1"))) as receiver:
        shown = await probe(api, receiver.url + "?a=4711", body={"payload": {"n": 1.0}}, secret=SECRET)
    (seen,) = receiver.requests
    Webhook(SECRET).verify(seen.body, dict(seen.headers))
    assert seen.body == b'{"n":1.0}'
    assert seen.values("gateway-test") == ["true"]
    assert shown["outcome"] == "succeeded"
    assert shown["request"]["url"] == receiver.url + "?…"
    sent = dict(shown["request"]["headers"])
    assert sent["webhook-id"] == seen.values("webhook-id")[0]
    assert sent["webhook-signature"] == seen.values("webhook-signature")[0]
    assert (shown["response"]["status"], shown["response"]["body"]) == (201, '{"ok":1}')
    assert ["x-a", "1"] in shown["response"]["headers"]
    assert await api.queued() == 0


async def test_probe_shows_no_secret(api: Running) -> None:
    async with Receiver(always(answer())) as receiver:
        auth = {"type": "basic", "username": "ada", "password": "p-4711"}
        shown = await probe(api, receiver.url, auth=auth, headers={"X-Key": "k-4711"})
    assert receiver.requests[0].values("x-key") == ["k-4711"]
    assert dict(shown["request"]["headers"])["authorization"] == "…"
    for secret in ("p-4711", "k-4711", b64encode(b"ada:p-4711").decode()):
        assert secret not in str(shown)
    key = (await api.client.get("/signing-keys")).json()["keys"][0]["public_key"]
    assert verify_callback(dict(receiver.requests[0].headers), b'{"test":true}', key) == {"test": True}


async def test_probe_shows_no_secret_that_comes_back(api: Running) -> None:
    page = b"Basic YWRhOnBhc3MtNDcxMQ==, pass-4711, x-shop: shop-4711, ?page=page-4711&token=token-4711, fine"
    async with Receiver(always(answer("404 X", page, "X-Seen: shop-4711"))) as receiver:
        auth = {"type": "basic", "username": "ada", "password": "pass-4711"}
        url = receiver.url + "?token=token-4711"
        shown = await probe(api, url, auth=auth, headers={"X-Shop": "shop-4711"})
    assert shown["response"]["body"] == "***, ***, x-shop: ***, ?page=page-4711&token=***, fine"
    assert ["x-seen", "***"] in shown["response"]["headers"]


@pytest.mark.parametrize(
    ("status", "outcome"), [("503 X", "retry"), ("404 X", "fatal"), ("302 X", "fatal"), ("410 X", "fatal")]
)
async def test_probe_says_what_an_attempt_would_make_of_the_answer(api: Running, status: str, outcome: str) -> None:
    async with Receiver(always(answer(status))) as receiver:
        shown = await probe(api, receiver.url)
    assert (shown["outcome"], shown["error"]["type"]) == (outcome, "status")
    assert shown["response"]["status"] == int(status[:3])


async def test_probe_of_a_target_that_goes_on_elsewhere_says_so(api: Running) -> None:
    async with Receiver(always(answer("202 Accepted", b"", "gateway-async: true"))) as receiver:
        shown = await probe(api, receiver.url)
    assert (shown["outcome"], shown["response"]["status"]) == ("parked", 202)
    assert "error" not in shown


async def test_probe_of_a_denied_address_sends_nothing(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    settings = settings_for(
        tmp_path, valkey_server.url, namespace, GATEWAY_EGRESS_ALLOW="127.0.0.0/8"
    )  # to register it
    async with (
        Receiver(always(answer()), host="127.0.0.2") as receiver,
        EgressClient(["127.0.0.1"]) as http,
        running(settings, http=http) as api,
    ):
        shown = await probe(api, receiver.url)
    assert (shown["outcome"], shown["error"]["type"]) == ("fatal", "egress_denied")
    assert receiver.connections == 0


async def test_other_executors_cannot_be_probed(api: Running) -> None:
    assert (await api.client.post("/targets/echo/test")).status_code == 409
    assert (await api.client.post("/targets/nobody/test")).status_code == 404


async def test_probe_is_denied_however_an_address_is_spelled(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_EGRESS_ALLOW="0.0.0.0/0,::/0")
    async with (
        Receiver(always(answer())) as inside,
        EgressClient(["127.0.0.2/32"], lookup=loopback) as http,
        running(settings, http=http) as api,
    ):
        for host in DENIED:
            shown = await probe(api, f"http://{host}:{inside.port}/in")
            assert (host, shown["outcome"], shown["error"]["type"]) == (host, "fatal", "egress_denied")
    assert inside.connections == 0

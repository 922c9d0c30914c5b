"""Who may do what: keys, scopes, and the loopback address that needs none."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gateway.api import models
from gateway.api.auth import BELIEVED_S
from gateway.api.operations import OPERATIONS, Operation
from gateway.apikeys import SCOPES, Scope
from gateway.jobs import Settlement
from gateway.store import Store
from gateway.store.apikeys import create_key, find_key
from tests.api.running import Running, bearer, claim, running, settings_for
from tests.servers import Server

ADMIN = "gwk_root_0123456789abcdef0123"
JOB = b'{"target":"echo"}'


@pytest.fixture
async def public(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    """As on an address that others reach (it listens on loopback all the same), without a configured key."""
    environ = {"GATEWAY_GATEWAY_HOST": "0.0.0.0"}
    async with running(settings_for(tmp_path, valkey_server.url, namespace, **environ)) as gateway:
        yield gateway


@pytest.fixture
async def private(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    """With a key from the configuration."""
    async with running(settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_API_KEY=ADMIN)) as gateway:
        yield gateway


def example(operation: Operation) -> tuple[str, str]:
    """A request for an operation."""
    method = "POST" if operation.method == "*" else operation.method
    method = "HEAD" if operation.path == "/events" else method  # the answer to a GET does not end
    return method, operation.path.replace("{job_id}", "x").replace("{key_id}", "x").replace("{trigger}", "github")


def named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


BY_TOKEN = {f"/jobs/{{job_id}}/{way}" for way in ("complete", "fail", "heartbeat")}
"""The token of an attempt says who may: test_completion.py."""

OPEN = {"/hooks/{trigger}", "/livez", "/readyz", "/ready", "/health", *BY_TOKEN}


async def test_routes_are_401_without_a_key_unless_they_are_among_the_open_ones(private: Running) -> None:
    for operation in OPERATIONS:
        (method, path), name = example(operation), named(operation)
        assert (operation.scope is None) == (operation.path in OPEN), name
        answer = await private.client.request(method, path)
        if operation.path in OPEN and method == "GET":
            assert answer.status_code == 200, name
            continue
        assert answer.status_code == 401, name
        if operation.path not in OPEN:
            assert answer.headers["www-authenticate"] == "Bearer", name
            known = await private.client.request(method, path, headers=bearer(ADMIN))
            assert known.status_code not in (401, 403), name


@pytest.mark.parametrize("scope", SCOPES)
async def test_routes_are_403_unless_the_key_has_their_scope(private: Running, scope: Scope) -> None:
    _, key = await create_key(private.store, scope, [scope], now_ms=1)
    for operation in OPERATIONS:
        if operation.scope is None:
            continue
        method, path = example(operation)
        answer = await private.client.request(method, path, headers=bearer(key))
        refused = scope not in ("admin", operation.scope)
        assert (answer.status_code == 403) == refused, (named(operation), answer.text)
        assert answer.status_code != 401, named(operation)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer gwk_root_0123456789abcdef0124",
        "Bearer gwk_root_0123456789abcdef012",
        "Bearer gwk_nobody_0123456789abcdef0123",
        "Bearer 0123456789abcdef0123",
        f"Basic {ADMIN}",
        ADMIN,
    ],
)
async def test_key_is_401_and_queues_nothing_when_it_is_wrong(private: Running, header: str) -> None:
    answer = await private.client.post("/jobs", content=JOB, headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.json()["status"] == 401
    assert await private.queued() == 0
    right = await private.client.post("/jobs", content=JOB, headers=bearer(ADMIN))
    assert right.status_code == 202


async def test_public_address_needs_a_key_though_none_exists(public: Running) -> None:
    for headers in ({}, bearer(ADMIN)):
        assert (await public.client.post("/jobs", content=JOB, headers=headers)).status_code == 401
    assert await public.queued() == 0
    _, key = await create_key(public.store, "first", ["submit"], now_ms=1)
    assert (await public.client.post("/jobs", content=JOB, headers=bearer(key))).status_code == 202


async def test_loopback_needs_a_key_once_one_exists(api: Running) -> None:
    made = await api.client.post("/apikeys", json={"name": "ops", "scopes": ["admin"]})
    assert made.status_code == 201, made.text
    key = msgspec.json.decode(made.content, type=models.MadeKey)
    assert (await api.client.post("/jobs", content=JOB)).status_code == 401
    assert (await api.client.post("/jobs", content=JOB, headers=bearer(key.key))).status_code == 202


async def test_first_key_over_http_is_an_admins(api: Running) -> None:
    reader = {"name": "r", "scopes": ["read", "submit"]}
    refused = await api.client.post("/apikeys", json=reader)
    assert refused.status_code == 409
    assert 'make one with the scope "admin" first' in refused.json()["detail"]
    assert (await api.client.get("/apikeys")).json() == {"apikeys": []}
    boss = (await api.client.post("/apikeys", json={"name": "boss", "scopes": ["admin"]})).json()
    assert (await api.client.post("/apikeys", json=reader, headers=bearer(boss["key"]))).status_code == 201


async def test_retry_shows_a_payload_only_to_keys_that_may_read_it(private: Running) -> None:
    shown = []
    for scopes in (["submit"], ["submit", "read"]):
        made = await private.client.post("/apikeys", json={"name": "x", "scopes": scopes}, headers=bearer(ADMIN))
        job_id = (
            await private.client.post("/jobs", content=b'{"target":"echo","payload":7}', headers=bearer(ADMIN))
        ).json()["job_id"]
        worker, _, tokens = await claim(private.store)
        await worker.exchange([Settlement(job_id, tokens[-1], "dead", reason="fatal")], None)
        answer = await private.client.post(f"/dlq/{job_id}/retry", headers=bearer(made.json()["key"]))
        assert (answer.status_code, answer.json()["status"]) == (200, "pending")
        shown.append("payload" in answer.json())
    assert shown == [False, True]


async def test_apikeys_are_made_listed_and_deleted(private: Running) -> None:
    admin = bearer(ADMIN)
    made = (
        await private.client.post("/apikeys", json={"name": "ci", "scopes": ["read", "submit"]}, headers=admin)
    ).json()
    assert made["scopes"] == ["read", "submit"]
    listed = await private.client.get("/apikeys", headers=admin)
    keys = msgspec.json.decode(listed.content, type=models.Keys).apikeys
    assert [(key.id, key.name) for key in keys] == [(made["id"], "ci")]
    stored = await find_key(private.store, made["id"])
    assert stored is not None
    secret = made["key"].split("_", 2)[2]
    assert secret not in listed.text
    assert secret not in repr(stored)
    assert (await private.client.get("/jobs", headers=bearer(made["key"]))).status_code == 200
    assert (await private.client.delete(f"/apikeys/{made['id']}", headers=admin)).status_code == 204
    assert (await private.client.get("/jobs", headers=bearer(made["key"]))).status_code == 401
    assert (await private.client.delete(f"/apikeys/{made['id']}", headers=admin)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"name":"x","scopes":["root"]}', 422),
        (b'{"name":"x","scopes":[]}', 422),
        (b'{"name":"","scopes":["read"]}', 422),
        (b'{"scopes":["read"]}', 422),
        (b"{", 400),
    ],
)
async def test_apikey_is_refused_when_its_name_or_scopes_are_wrong(private: Running, body: bytes, status: int) -> None:
    answer = await private.client.post("/apikeys", content=body, headers=bearer(ADMIN))
    assert answer.status_code == status, answer.text
    assert (await private.client.get("/apikeys", headers=bearer(ADMIN))).json() == {"apikeys": []}


async def test_wrong_apikey_is_told_all_its_faults(private: Running) -> None:
    body = b'{"scopes":["read","root"],"colour":1,"callback":{"events":["job.done"]}}'
    answer = await private.client.post("/apikeys", content=body, headers=bearer(ADMIN))
    faults = {each["pointer"]: each["detail"] for each in answer.json()["errors"]}
    assert faults == {
        "/scopes/1": "invalid enum value 'root'; write one of: submit, read, url, admin",
        "/colour": 'unknown field "colour"; known: name, scopes, callback',
        "/callback/events/0": faults["/callback/events/0"],
        "/callback/url": "is missing",
        "/name": "is missing",
    }


async def test_idempotency_keys_of_two_clients_do_not_clash(private: Running) -> None:
    body = b'{"target":"echo","idempotency_key":"same"}'
    ids = set()
    for name in ("one", "two"):
        _, key = await create_key(private.store, name, ["submit"], now_ms=1)
        ids.add((await private.client.post("/jobs", content=body, headers=bearer(key))).json()["job_id"])
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8080"}, 202),
        ({"Host": "[::1]:8080"}, 202),
        ({"Host": "gateway:8080"}, 202),
        ({"Host": "rebound.attacker.example"}, 403),
        ({"Host": "203.0.113.9"}, 403),
        ({"Host": "localhost", "X-Forwarded-For": "203.0.113.9"}, 403),
        ({"Host": "localhost", "Via": "1.1 tunnel"}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://attacker.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8080"}, 202),
    ],
)
async def test_web_pages_cannot_submit_when_no_key_is_needed(
    api: Running, headers: dict[str, str], status: int
) -> None:
    answer = await api.client.post("/jobs", content=JOB, headers=headers)
    assert answer.status_code == status, answer.text
    assert await api.queued() == (1 if status == 202 else 0)


async def hget_calls(store: Store) -> int:
    stats = await store.client.info("commandstats")
    return int(stats.get("cmdstat_hget", {}).get("calls", 0))


async def test_failed_keys_ask_redis_once_when_they_are_tried_again_and_again(tmp_path: Path) -> None:
    with Server() as server:
        async with running(settings_for(tmp_path, server.url, "t", GATEWAY_GATEWAY_HOST="0.0.0.0")) as api:
            await api.client.get("/jobs", headers=bearer("gwk_first_0123456789abcdef"))
            before, began_s = await hget_calls(api.store), time.monotonic()
            for _ in range(10):
                answer = await api.client.get("/jobs", headers=bearer("gwk_second_0123456789abcdef"))
                assert answer.status_code == 401
            again = int((time.monotonic() - began_s) / BELIEVED_S)  # on a slow machine
            assert 1 <= await hget_calls(api.store) - before <= 1 + again


async def test_secret_is_stored_only_as_its_hash(api: Running) -> None:
    key_id, text = await create_key(api.store, "k", ["read"], now_ms=1)
    raw = await api.store.client.hgetall(api.store.keyspaces[0].apikeys)
    assert text.split("_", 2)[2].encode() not in raw[key_id.encode()]


async def test_jobs_of_a_key_have_its_callback_unless_they_name_one(api: Running) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    default = {"url": "https://client.example/done", "events": ["job.dead"], "secret": secret, "retry": {"base": "2s"}}
    body = {"name": "shop", "scopes": ["submit", "admin"], "callback": default}
    made = (await api.client.post("/apikeys", json=body)).json()
    headers = bearer(made["key"])
    for own, url in ((None, default["url"]), ({"url": "https://other.example/"}, "https://other.example/")):
        job = {"target": "echo"} | ({"callback": own} if own else {})
        answer = await api.client.post("/jobs", json=job, headers=headers)
        callback = (await api.store.find(answer.json()["job_id"])).record.options.callback
        assert callback is not None
        assert (callback.url, callback.secret) == (url, None if own else secret)
    listed = (await api.client.get("/apikeys", headers=headers)).json()["apikeys"][0]
    assert listed["callback"] == {"url": default["url"], "events": ["job.dead"]}
    for wrong in (
        {"url": "ftp://x"},
        {"url": "https://a.example/", "secret": "x"},
        {"url": "https://a.example/", "n": 1},
    ):
        answer = await api.client.post("/apikeys", json=body | {"callback": wrong}, headers=headers)
        assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    ("retry", "pointer"),
    [
        ({"max_attempts": 0}, "/callback/retry/max_attempts"),
        ({"base": "7h"}, "/callback/retry"),
        ({"bse": "1s"}, "/callback/retry/bse"),
    ],
)
async def test_fault_of_a_callbacks_retry_is_named(api: Running, retry: dict[str, object], pointer: str) -> None:
    body = {"target": "echo", "callback": {"url": "https://a.example/", "retry": retry}}
    answer = await api.client.post("/jobs", json=body)
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]

"""Targets over the API: registered, replaced, shown without secrets, given new secrets, forgotten."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.running import Running, running, settings_for
from tests.servers import Server
from tests.waiting import until

URL = "https://billing.example/invoice?token=q-4711"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_bm90IHRoZSBzZWNyZXQgdGhhdCBzaWduZWQgdGhpcw=="
TABLE: dict[str, Any] = {
    "executor": "http",
    "url": URL,
    "headers": {"X-Key": "h-4711"},
    "secret": SECRET,
    "auth": {"type": "bearer", "token": "b-4711"},
    "limit": {"rate": "10/s"},
    "retry": {"max_attempts": 3},
    "lane": "low",
}
HIDDEN = ("4711", SECRET.removeprefix("whsec_"), OTHER.removeprefix("whsec_"))


@pytest.fixture
async def api(tmp_path: Path, valkey_server: Server, namespace: str) -> AsyncIterator[Running]:
    async with running(settings_for(tmp_path, valkey_server.url, namespace)) as api:
        yield api


async def put(api: Running, name: str = "invoice", **changes: Any) -> httpx.Response:
    return await api.client.put(f"/targets/{name}", json=TABLE | changes)


def faults(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {each["pointer"]: each["detail"] for each in answer.json()["errors"]}


async def test_registered_target_takes_jobs_at_once(api: Running) -> None:
    assert (await api.client.post("/jobs", json={"target": "invoice"})).status_code == 404
    answer = await put(api)
    assert answer.status_code == 201, answer.text
    job = (await api.client.post("/jobs", json={"target": "invoice"})).json()
    record = (await api.store.find(job["job_id"])).record
    assert (record.target, record.lane, record.max_attempts) == ("invoice", "low", 3)
    assert (await put(api, lane="critical")).status_code == 200
    job = (await api.client.post("/jobs", json={"target": "invoice"})).json()
    assert (await api.store.find(job["job_id"])).record.lane == "critical"


@pytest.mark.parametrize("host", ["10.1.2.3", "127.0.0.1:9000", "[::1]"])
async def test_target_on_an_address_that_may_not_be_reached_is_refused_with_the_line_to_add(
    api: Running, host: str
) -> None:
    detail = faults(await put(api, url=f"http://{host}/x"))["/url"]
    assert re.search(r'is not a public address; to reach it, add "[0-9.:]+/(32|128)" to \[egress\] allow', detail)
    assert (await api.client.get("/targets/invoice")).status_code == 404


async def test_target_is_registered_where_its_address_is_allowed_or_told_by_a_name(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_EGRESS_ALLOW="10.1.0.0/16")
    async with running(settings) as api:
        for host in ("10.1.2.3", "8.8.8.8", "localhost"):
            assert (await put(api, name=f"t{host[:2]}", url=f"http://{host}/x")).status_code == 201


async def test_no_secret_is_ever_shown(api: Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answers = [await put(api), await put(api, previous_secrets=[{"secret": OTHER}])]
        answers += [await api.client.get(path) for path in ("/targets", "/targets/invoice", "/openapi.json", "/stats")]
        answers.append(await put(api, secret=SECRET + "%"))
        answers.append(await put(api, auth={"type": "bearer", "token": "b-4711 b"}))
    for text in (*(answer.text for answer in answers), caplog.text):
        assert not any(hidden in text for hidden in HIDDEN), text
    shown = answers[1].json()
    assert shown["source"] == "api"
    assert shown["limits"] == {"rate": "10/s"}
    assert shown["config"] == {
        "url": "https://billing.example/invoice?…",
        "headers": {"X-Key": {"set": True}},
        "secret": {"set": True},
        "previous_secrets": [{"secret": {"set": True}}],
        "auth": {"type": "bearer", "token": {"set": True}},
    }
    assert answers[3].json() == shown


async def test_every_fault_is_told_at_once(api: Running) -> None:
    answer = await put(
        api,
        url="ftp://x",
        method="TRACE",
        headers={"Host": "b"},
        secret="whsec_QUJD",
        retry_statuses=["6xx"],
        limit={"rate": "fast"},
        timeout="-1s",
        client_cert="/etc/passwd",
        tiemout=5,
    )
    assert set(faults(answer)) == {
        *(
            "/url",
            "/method",
            "/headers",
            "/secret",
            "/retry_statuses",
            "/limit/rate",
            "/timeout",
            "/client_cert",
            "/tiemout",
        ),
    }
    assert await api.store.client.exists(api.store.keyspaces[0].targets) == 0


@pytest.mark.parametrize(
    ("name", "body", "pointer", "why"),
    [
        ("invoice", {"executor": "http"}, "", 'missing key "url"'),
        ("invoice", {"url": URL}, "", 'missing key "executor"'),
        ("invoice", {"executor": "python", "callable": "os:abort"}, "/executor", "in the configuration file only"),
        ("invoice", {"executor": "command", "argv": ["sh"]}, "/executor", "in the configuration file only"),
        ("invoice", {"executor": "htpt"}, "/executor", 'did you mean "http"'),
        ("invoice", {"executor": "http", "url": URL, "secret": {"env": "PATH"}}, "/secret", "only the configuration"),
        ("invoice", {"executor": "http", "url": URL, "ca": {"file": "/etc/passwd"}}, "/ca", "only the configuration"),
        ("gateway.callback", TABLE, "", "the gateway's own"),
        ("-x", TABLE, "", "is not a name"),
    ],
)
async def test_fault_is_named(api: Running, name: str, body: dict[str, Any], pointer: str, why: str) -> None:
    found = faults(await api.client.put(f"/targets/{name}", json=body))
    assert why in found[pointer]


@pytest.mark.parametrize(("text", "status"), [("{", 400), ("[]", 422), ("7", 422), ("", 400)])
async def test_body_that_is_no_object_is_refused(api: Running, text: str, status: int) -> None:
    headers = {"content-type": "application/json"}
    assert (await api.client.put("/targets/x", content=text, headers=headers)).status_code == status


async def test_target_of_the_configuration_is_left_alone(api: Running) -> None:
    for answer in (
        await put(api, "echo"),
        await api.client.delete("/targets/echo"),
        await api.client.post("/targets/echo/rotate"),
    ):
        assert answer.status_code == 409, answer.text


async def test_forgotten_target_takes_no_more_jobs(api: Running) -> None:
    await put(api)
    job = (await api.client.post("/jobs", json={"target": "invoice"})).json()
    waits = await api.client.delete("/targets/invoice")
    assert (waits.status_code, waits.json()["detail"].split(":")[0]) == (409, "1 jobs of target invoice wait or run")
    await api.client.delete(f"/jobs/{job['job_id']}")
    assert (await api.client.delete("/targets/invoice")).status_code == 204
    assert (await api.client.post("/jobs", json={"target": "invoice"})).status_code == 404
    assert (await api.client.delete("/targets/invoice")).status_code == 404


async def test_new_secret_is_shown_once_and_the_old_one_stays_for_a_while(api: Running) -> None:
    await put(api)
    made = (await api.client.post("/targets/invoice/rotate", json={"overlap": "1h"})).json()
    again = (await api.client.post("/targets/invoice/rotate", json={"secret": OTHER, "overlap": 0})).json()
    assert made["secret"].startswith("whsec_")
    assert again["secret"] == OTHER
    config = api.registry.targets["invoice"].config
    assert config.secret.reveal() == OTHER
    assert [each.secret.reveal() for each in config.previous_secrets] == [SECRET]
    assert "/secret" in faults(await api.client.post("/targets/invoice/rotate", json={"secret": "hunter2"}))
    assert (await api.client.post("/targets/nobody/rotate")).status_code == 404


async def test_every_gateway_sees_a_change_soon(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(running(settings_for(tmp_path, valkey_server.url, namespace)))
            for _ in range(2)
        ]
        await put(one)
        await until(lambda: _has(other, "invoice"))
        await one.client.delete("/targets/invoice")
        await until(lambda: _has_not(other, "invoice"))


async def _has(api: Running, name: str) -> bool:
    return name in api.registry.targets


async def _has_not(api: Running, name: str) -> bool:
    return name not in api.registry.targets


async def test_signing_key_changes_without_a_gap(api: Running) -> None:
    (old,) = (await api.client.get("/signing-keys")).json()["keys"]
    keys = (await api.client.post("/signing-keys/rotate", json={"overlap": "1h"})).json()["keys"]
    assert len(keys) == 2
    assert keys[1] == old
    assert (await api.client.get("/signing-keys")).json()["keys"] == keys
    (last,) = (await api.client.post("/signing-keys/rotate", json={"overlap": 0})).json()["keys"][:1]
    left = (await api.client.get("/signing-keys")).json()["keys"]
    assert left == [last, old]

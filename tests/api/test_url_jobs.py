"""Jobs to a URL, and what jobs may set of their requests, as clients submit them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.jobs import URL_TARGET
from gateway.settings import load
from gateway.store.apikeys import create_key
from tests.api import running as api_running
from tests.api.running import Running, bearer
from tests.servers import Server

MORE = """
[targets.orders]
executor = "http"
url = "https://orders.example/v1"
job_may = ["path", "query"]
"""


@contextlib.asynccontextmanager
async def serving(directory: Path, server: Server, namespace: str, **environ: str) -> AsyncIterator[Running]:
    settings = api_running.settings_for(directory, server.url, namespace, **environ)
    file = directory / "gateway.toml"
    file.write_text(file.read_text() + MORE)
    own = {"GATEWAY_REDIS_URL": server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    async with api_running.running(load(own | environ, settings.directory)) as it:
        yield it


def faults(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {each["pointer"]: each["detail"] for each in answer.json()["errors"]}


async def test_job_to_a_url_is_taken_in_where_that_is_on(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    body = {"url": "https://Shop.example./done", "payload": 1, "method": "PUT", "headers": {"X-A": "1"}}
    async with serving(tmp_path, valkey_server, namespace, GATEWAY_GATEWAY_URL_JOBS="true") as it:
        answer = await it.client.post("/jobs", json=body)
        assert answer.status_code == 202, answer.text
        record = (await it.store.find(answer.json()["job_id"])).record
        assert (record.target, record.key) == (URL_TARGET, "shop.example:443")
        request = record.options.request
        assert request is not None
        assert (request.url, request.method, request.headers) == (body["url"], "PUT", {"X-A": "1"})


async def test_job_to_a_url_is_refused_where_that_is_off(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    async with serving(tmp_path, valkey_server, namespace) as it:
        assert (
            "set url_jobs in [gateway]"
            in faults(await it.client.post("/jobs", json={"url": "http://a.example/"}))["/url"]
        )
        assert await it.queued() == 0


async def test_job_to_a_url_needs_the_scope(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    body = {"url": "http://a.example/"}
    async with serving(tmp_path, valkey_server, namespace, GATEWAY_GATEWAY_URL_JOBS="true") as it:
        for scopes, status in ((("submit",), 403), (("submit", "url"), 202), (("admin",), 202), (("url",), 403)):
            _, key = await create_key(it.store, "k", scopes, now_ms=0)  # type: ignore[arg-type]
            answer = await it.client.post("/jobs", json=body, headers=bearer(key))
            assert answer.status_code == status, (scopes, answer.text)
        _, key = await create_key(it.store, "k", ("submit",), now_ms=0)
        answer = await it.client.post("/jobs/batch", json=[body, {"target": "echo"}], headers=bearer(key))
        refused, taken = answer.json()["results"]
        assert (refused["error"]["status"], taken["status"]) == (403, "pending")


@pytest.mark.parametrize(
    ("body", "pointer", "why"),
    [
        ({"url": "ftp://a.example/"}, "/url", "http:// or https://"),
        ({"url": "http://10.1.2.3/"}, "/url", 'add "10.1.2.3/32" to [egress] allow'),
        ({"url": "http://u:p@a.example/"}, "/url", "no user"),
        ({"url": "http://a.example/", "target": "echo"}, "/target", "beside url"),
        ({"url": "http://a.example/", "key": "k"}, "/key", "its host"),
        ({"url": "http://a.example/", "headers": {"Host": "b"}}, "/headers", "set by the gateway"),
        ({"url": "http://a.example/", "method": "TRACE"}, "/method", "is none of"),
        ({"url": "http://a.example/", "path": "/b"}, "/path", "takes no path"),
        ({"target": "orders", "headers": {"a": "b"}}, "/headers", "takes no headers"),
        ({"target": "orders", "path": "/../b"}, "/path", ".."),
        ({"target": "orders", "query": {"a": 1}}, "/query", "expected str"),
        ({"target": "echo", "path": "/b"}, "/path", "'python' take no headers"),
    ],
)
async def test_fault_of_a_request_is_named(
    tmp_path: Path, valkey_server: Server, namespace: str, body: dict[str, Any], pointer: str, why: str
) -> None:
    async with serving(tmp_path, valkey_server, namespace, GATEWAY_GATEWAY_URL_JOBS="true") as it:
        found = faults(await it.client.post("/jobs", json=body))
        assert list(found) == [pointer]
        assert why in found[pointer]
        assert await it.queued() == 0


async def test_job_keeps_what_its_target_allows(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    async with serving(tmp_path, valkey_server, namespace) as it:
        body = {"target": "orders", "path": "/orders/7", "query": {"dry": "1"}}
        record = (await it.store.find((await it.client.post("/jobs", json=body)).json()["job_id"])).record
        assert record.options.request is not None
        assert (record.options.request.path, record.options.request.query) == ("/orders/7", {"dry": "1"})

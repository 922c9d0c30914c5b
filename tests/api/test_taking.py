"""Requests that come whole, which are answered without a task of their own: as those that come in pieces."""

from __future__ import annotations

import asyncio
import hmac
from pathlib import Path
from typing import Any

import pytest

from tests.api.running import Running, running, settings_for
from tests.api.test_limits import Connection
from tests.proxy import Proxy
from tests.servers import Server
from tests.waiting import until

PUSH = b'{"ref":"main"}'
SIGNED = b"X-Hub-Signature-256: sha256=%b\r\nX-GitHub-Event: push\r\n" % (
    hmac.digest(b"the-secret", PUSH, "sha256").hex().encode()
)
KINDS = {
    "job": (b"/jobs", b"", b'{"target":"echo"}'),
    "job on disk": (b"/jobs", b"Prefer: durability=memory\r\n", b'{"target":"echo"}'),
    "unknown target": (b"/jobs", b"", b'{"target":"ech"}'),
    "no JSON": (b"/jobs", b"", b'{"target":'),
    "wrong fields": (b"/jobs", b"", b'{"target":"echo","lane":1,"priority":1000}'),
    "wrong key": (b"/jobs", b"Authorization: Bearer gwk_me_0123456789abcdef\r\n", b'{"target":"echo"}'),
    "page of another origin": (b"/jobs", b"Sec-Fetch-Site: cross-site\r\n", b'{"target":"echo"}'),
    "compressed": (b"/jobs", b"Content-Encoding: gzip\r\n", b'{"target":"echo"}'),
    "too large": (b"/hooks/github", SIGNED, b" " * 30_001),
    "batch": (b"/jobs/batch", b"", b'[{"target":"echo"},{"target":"ech"},{}]'),
    "batch of faults": (b"/jobs/batch", b"", b"[{}]"),
    "delivery": (b"/hooks/github", SIGNED + b"X-GitHub-Delivery: g-%d\r\n", PUSH),
    "delivery that nobody wants": (b"/hooks/github", SIGNED.replace(b"push", b"star"), PUSH),
    "delivery by a stranger": (b"/hooks/github", SIGNED, b"{}"),
    "no trigger": (b"/hooks/gitlab", SIGNED, PUSH),
}


def request(path: bytes, headers: bytes, body: bytes) -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%b\r\n" % (path, len(body), headers)
    return head + body


async def answered(api: Running, *parts: bytes) -> tuple[int, dict[str, str], Any]:
    """The answer, with ids blotted out; the gateway has read each part before the next one is sent."""
    connection = await Connection.open(api)
    for part in parts:
        await connection.send(part)
        await api.client.get("/livez")
    status, headers, body = await connection.answer()
    connection.writer.close()
    return status, headers | {"content-length": ""}, _blot(body)


def _blot(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if name == "job_id" else _blot(each) for name, each in value.items()}
    return [_blot(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS)
async def test_request_is_answered_alike_when_it_comes_whole_and_in_pieces(api: Running, kind: str) -> None:
    path, headers, body = KINDS[kind]
    numbered = b"%d" in headers
    whole = request(path, headers % 1 if numbered else headers, body)
    parts = request(path, headers % 2 if numbered else headers, body)
    assert await answered(api, whole) == await answered(api, parts[:-5], parts[-5:])


async def test_requests_of_one_write_are_answered_in_turn(api: Running) -> None:
    await api.client.post("/jobs", content=b'{"target":"echo"}')
    connection = await Connection.open(api)
    kinds = ("job", "no JSON", "job on disk", "delivery by a stranger", "batch", "job")
    await connection.send(b"".join(request(*KINDS[kind]) for kind in kinds))
    statuses = [(await connection.answer())[0] for _ in kinds]
    assert statuses == [202, 400, 202, 401, 200, 202]
    connection.writer.close()


async def test_job_is_kept_when_its_client_leaves_before_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server() as server:
        async with Proxy(server) as proxy, running(settings_for(tmp_path, proxy.url, "t")) as api:
            await until_taken(api)
            before = await api.queued()
            proxy.delay_s = 0.2
            connection = await Connection.open(api)
            await connection.send(request(*KINDS["job"]))
            await api.client.get("/livez")
            connection.writer.close()
            await connection.writer.wait_closed()
            proxy.delay_s = 0.0

            async def kept() -> bool:
                return await api.queued() == before + 1

            await until(kept)
    assert not [each for each in caplog.records if each.name in ("uvicorn.error", "asyncio")]


async def until_taken(api: Running) -> None:
    """Until a job was taken in: the way to Redis is open, and it is known that no key is needed."""

    async def taken() -> bool:
        return (await api.client.post("/jobs", content=b'{"target":"echo"}')).status_code == 202

    async with asyncio.timeout(10):
        await until(taken)

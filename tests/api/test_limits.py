"""What a client may not do to a gateway: over raw sockets, since no client library would."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.running import Running, running, settings_for
from tests.servers import Server
from tests.waiting import until

HEAD = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\n"
JOB = b'{"target":"echo"}'
WAIT_S = 60.0


class Connection:
    """A raw connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, api: Running) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", api.port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and parsed body of the next answer."""
        async with asyncio.timeout(WAIT_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await self.reader.readexactly(int(headers["content-length"]))
        return int(head[0].split(" ")[1]), headers, json.loads(body)

    async def ended(self) -> bool:
        """Whether the gateway closes the connection and sends nothing more."""
        async with asyncio.timeout(WAIT_S):
            rest = await self.reader.read()
        self.writer.close()
        return rest == b""


async def refusal(api: Running, *parts: bytes) -> int:
    """The status of a request that must be a problem, queue nothing and end the connection."""
    connection = await Connection.open(api)
    for part in parts:
        await connection.send(part)
    status, headers, body = await connection.answer()
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert body["status"] == status
    assert body["errors"]
    assert await connection.ended()
    assert await api.queued() == 0
    return status


async def test_body_over_the_limit_is_413_when_its_length_is_declared(api: Running) -> None:
    limit = api.settings.gateway.max_body
    assert await refusal(api, HEAD + b"Content-Length: %d\r\n\r\n" % (limit + 1)) == 413


async def test_body_over_the_limit_is_told_which_setting_that_is(api: Running) -> None:
    answer = await api.client.post("/jobs", content=b" " * (api.settings.gateway.max_body + 1))
    assert (
        answer.json()["detail"]
        == f"the body is larger than {api.settings.gateway.max_body} bytes, max_body of [gateway]"
    )


async def test_body_over_the_limit_is_413_when_the_client_is_still_sending_it(api: Running) -> None:
    length = api.settings.gateway.max_body + 300_000
    assert await refusal(api, HEAD + b"Content-Length: %d\r\n\r\n" % length, b" " * length) == 413


async def test_body_over_the_limit_is_413_before_it_ends_when_it_is_chunked(api: Running) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    chunks = api.settings.gateway.max_body // 0x10000 + 1
    assert await refusal(api, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * chunks) == 413


async def test_body_at_the_limit_is_accepted(api: Running) -> None:
    padding = b" " * (api.settings.gateway.max_body - len(JOB))
    assert (await api.client.post("/jobs", content=JOB + padding)).status_code == 202


async def test_body_is_not_asked_for_when_it_is_declared_too_large(api: Running) -> None:
    head = HEAD + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"
    assert await refusal(api, head) == 413


@pytest.mark.parametrize("sent", [b"", b'{"tar'])
async def test_body_that_stalls_is_408_and_ends_the_connection(
    valkey_server: Server, namespace: str, tmp_path: Path, sent: bytes
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_GATEWAY_BODY_TIMEOUT="200ms")
    async with running(settings) as api:
        assert await refusal(api, HEAD + b"Content-Length: 100\r\n\r\n" + sent) == 408


async def test_body_that_trickles_is_408_though_it_never_stalls(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_GATEWAY_BODY_TIMEOUT="300ms")
    async with running(settings) as api:
        connection = await Connection.open(api)
        await connection.send(HEAD + b"Content-Length: 1000000\r\n\r\n")
        answer = asyncio.create_task(connection.answer())
        while not answer.done():
            await connection.send(b" ")
            await asyncio.wait([answer], timeout=0.05)
        assert (await answer)[0] == 408
        connection.writer.close()


async def test_bodies_that_are_held_back_are_503_above_a_bound_and_small_ones_still_taken_in(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    environ = {"GATEWAY_GATEWAY_MAX_ARRIVING": str(1 << 20), "GATEWAY_GATEWAY_MAX_BODY": str(2 << 20)}
    large = b'{"target":"echo","payload":"' + b"x" * (1 << 20)
    head = HEAD + b"Content-Length: %d\r\n\r\n" % (len(large) + 2)
    async with running(settings_for(tmp_path, valkey_server.url, namespace, **environ)) as api:
        first = await Connection.open(api)
        await first.send(head + large)  # alone it may be larger than the bound
        await arrived(api)
        for _ in range(2):  # what was refused counts no more
            second = await Connection.open(api)
            await second.send(head + large)
            status, headers, _ = await second.answer()
            assert (status, headers["retry-after"], headers["connection"]) == (503, "5", "close")
            second.writer.close()
        assert (await api.client.post("/jobs", content=JOB)).status_code == 202
        await first.send(b'"}')
        assert (await first.answer())[0] == 202
        first.writer.close()
        left = await Connection.open(api)
        await left.send(head + large)
        await arrived(api)
        left.writer.transport.abort()

        async def taken_in() -> bool:
            third = await Connection.open(api)
            await third.send(head + large)
            await third.send(b'"}')
            status = (await third.answer())[0]
            third.writer.close()
            return status == 202

        await until(taken_in)


def on_its_way(api: Running) -> bool:
    """Whether there is anything that was sent to the gateway, or by it, and is not read yet."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    here = [line for line in lines if f":{api.port:04X}" in line[1] + line[2] and line[3] == "01"]
    return any(line[4] != "00000000:00000000" for line in here)


async def arrived(api: Running) -> None:
    """Returns once the gateway has read all that was sent to it."""

    async def all_read() -> bool:
        return not on_its_way(api)

    await until(all_read)
    await api.client.get("/livez")


async def test_client_that_leaves_amid_its_body_queues_nothing(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(HEAD + b"Content-Length: 100\r\n\r\n" + JOB)
    connection.writer.close()
    await connection.writer.wait_closed()
    assert (await api.client.get("/livez")).status_code == 200
    assert await api.queued() == 0


async def test_headers_are_431_when_there_are_300(api: Running) -> None:
    many = b"".join(b"X-Header-%d: 1\r\n" % n for n in range(300))
    body = b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB
    assert await refusal(api, HEAD + many + body) == 431


async def test_headers_are_431_when_they_are_long(api: Running) -> None:
    long = b"X-Long: " + b"a" * api.settings.gateway.max_header_bytes + b"\r\n"
    assert await refusal(api, HEAD + long + b"Content-Length: 0\r\n\r\n") == 431


async def test_headers_that_never_end_are_431(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(HEAD + b"X-Endless: ")
    answer = asyncio.create_task(connection.answer())
    while not answer.done():
        try:
            await connection.send(b"a" * 65536)
        except ConnectionError:
            break
        await asyncio.sleep(0)
    assert (await answer)[0] == 431
    connection.writer.close()


async def test_headers_that_never_end_are_bounded_behind_an_answer_that_is_held(api: Running) -> None:
    connection = await Connection.open(api)
    job = b'{"target":"echo","delay":"1h"}'
    held = HEAD + b"Prefer: wait=20\r\nContent-Length: %d\r\n\r\n" % len(job) + job
    await connection.send(held + b"GET /livez HTTP/1.1\r\nX-Endless: ")
    assert await _until_closed(connection, b"a" * 65536, most=64 * 1024 * 1024)


async def test_requests_far_ahead_of_their_answers_close_the_connection(api: Running) -> None:
    connection = await Connection.open(api)
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert await _until_closed(connection, request * 500, most=64 * 1024 * 1024)
    # others are answered as before
    other = await Connection.open(api)
    await other.send(request)
    assert (await other.answer())[0] == 200
    other.writer.close()


async def test_a_few_requests_ahead_of_their_answers_are_answered_in_order(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(
        b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in [b"/livez", b"/none"] * 8)
    )
    assert [(await connection.answer())[0] for _ in range(16)] == [200, 404] * 8
    connection.writer.close()


async def _until_closed(connection: Connection, chunk: bytes, *, most: int) -> bool:
    """Sends until the other side closes: whether it does before `most` bytes."""
    for _ in range(most // len(chunk)):
        try:
            await connection.send(chunk)
        except ConnectionError:
            return True
        await asyncio.sleep(0)
    return False


async def test_path_is_414_when_it_is_long(api: Running) -> None:
    assert await refusal(api, b"GET /jobs?cursor=" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") == 414


@pytest.mark.parametrize(
    "head",
    [
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nX-Nul: a\x00b\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_head_is_400_when_it_is_not_http(api: Running, head: bytes) -> None:
    assert await refusal(api, head) == 400


@pytest.mark.parametrize("name", [b"Authorization: Bearer x", b"Idempotency-Key: x", b"Content-Type: application/json"])
async def test_header_is_400_when_it_is_there_twice(api: Running, name: bytes) -> None:
    head = HEAD + (name + b"\r\n") * 2 + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB
    assert await refusal(api, head) == 400


async def test_connection_is_reused_when_requests_are_well_formed(api: Running) -> None:
    connection = await Connection.open(api)
    for _ in range(2):
        await connection.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB)
        assert (await connection.answer())[0] == 202
    connection.writer.close()

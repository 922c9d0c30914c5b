"""Requests as senders put them on the wire: upgrades, trailers, and heads that RFC 9112 does not allow."""

from __future__ import annotations

import asyncio
import hmac

import pytest

from gateway.jobs import Record
from tests.api.running import Running
from tests.api.test_limits import HEAD, Connection

H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
PAYLOAD = b'{"n":1}'
BODY = b'{"target":"echo","payload":%b}' % PAYLOAD
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])


async def taken_in(api: Running, connection: Connection) -> Record:
    status, _, answer = await connection.answer()
    assert status == 202
    return (await api.store.find(answer["job_id"])).record


@pytest.mark.parametrize("upgrade", [H2C, WEBSOCKET, b"Connection: upgrade\r\nUpgrade: TLS/1.0, x\r\n"])
@pytest.mark.parametrize("body", [LENGTH + b"\r\n" + BODY, CHUNKED + b"\r\n" + CHUNKS + b"\r\n"])
async def test_request_keeps_its_body_when_it_offers_an_upgrade(api: Running, upgrade: bytes, body: bytes) -> None:
    connection = await Connection.open(api)
    await connection.send((HEAD + upgrade + body) * 2 + LIVEZ + upgrade + b"\r\n" + LIVEZ + b"\r\n")
    for _ in range(2):
        assert (await taken_in(api, connection)).payload == PAYLOAD
    for _ in range(2):
        assert (await connection.answer())[0] == 200
    connection.writer.close()


async def test_request_keeps_its_body_when_it_offers_an_upgrade_and_comes_byte_by_byte(api: Running) -> None:
    connection = await Connection.open(api)
    for each in HEAD + H2C + LENGTH + b"\r\n" + BODY:
        await connection.send(bytes([each]))
        await asyncio.sleep(0)
    assert (await taken_in(api, connection)).payload == PAYLOAD
    await connection.send(LIVEZ + b"\r\n")
    assert (await connection.answer())[0] == 200
    connection.writer.close()


async def test_white_space_around_a_value_is_no_part_of_it(api: Running) -> None:
    connection = await Connection.open(api)
    signature = hmac.digest(b"the-secret", PAYLOAD, "sha256").hex().encode()
    delivery = (
        b"POST /hooks/github HTTP/1.1\r\nHost: localhost\r\nX-GitHub-Event: push\r\n"
        b"X-Hub-Signature-256: \t sha256=%b \t \r\nContent-Length: %d \r\n\r\n%b"
    )
    await connection.send(delivery % (signature, len(PAYLOAD), PAYLOAD))
    assert (await connection.answer())[0] == 202
    for key, duplicate in ((b"k", None), (b" k\t ", True)):
        await connection.send(HEAD + b"Idempotency-Key:" + key + b"\r\n" + LENGTH + b"\r\n" + BODY)
        assert (await connection.answer())[2].get("duplicate") is duplicate
    connection.writer.close()


async def test_trailers_are_no_headers(api: Running) -> None:
    connection = await Connection.open(api)
    request = HEAD + CHUNKED + b"\r\n" + CHUNKS + b"Idempotency-Key: k\r\nContent-Type: text/plain\r\n\r\n"
    await connection.send(request * 2)
    first, second = await taken_in(api, connection), await taken_in(api, connection)
    assert first.job_id != second.job_id
    assert first.payload == second.payload == PAYLOAD
    connection.writer.close()


@pytest.mark.parametrize("trailer", [b"X-Trailer: " + b"a" * 1000 + b"\r\n", b"a" * 1000])
async def test_trailers_that_never_end_are_431(api: Running, trailer: bytes) -> None:
    connection = await Connection.open(api)
    await connection.send(HEAD + CHUNKED + b"\r\n" + CHUNKS)
    answer = asyncio.create_task(connection.answer())
    for _ in range(32 * 1024):
        try:
            await connection.send(trailer)
        except ConnectionError:
            break
        if answer.done():
            break
        await asyncio.sleep(0)
    assert (await answer)[0] == 431
    connection.writer.close()


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b" HTTP/1.1\r\n\r\n", 400),
        (b" HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
    ],
)
async def test_head_that_rfc_9112_does_not_allow_is_refused_on_every_path(
    api: Running, rest: bytes, status: int
) -> None:
    for path in (b"/livez", b"/nope", b"/jobs"):
        connection = await Connection.open(api)
        await connection.send(b"GET " + path + rest)
        answered, headers, answer = await connection.answer()
        assert (answered, headers["content-type"]) == (status, "application/problem+json")
        assert answer["errors"]
        assert await connection.ended()


@pytest.mark.parametrize("target", [b"http://x", b"http://x?a", b"http://[", b"http://x:99999/health"])
@pytest.mark.parametrize("before", [0, 1, 5])
async def test_target_that_is_none_is_refused_behind_what_came_before_it(
    api: Running, target: bytes, before: int
) -> None:
    queued = await api.queued()
    connection = await Connection.open(api)
    await connection.send((HEAD + LENGTH + b"\r\n" + BODY) * before + b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % target)
    assert [(await connection.answer())[0] for _ in range(before + 1)] == [202] * before + [400]
    assert await api.queued() == queued + before
    connection.writer.close()


async def test_fault_behind_an_offered_upgrade_is_told_as_any_other(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(LIVEZ + H2C + b"\r\n" + HEAD + b"Transfer-Encoding: gzip\r\n\r\n")
    assert [(await connection.answer())[0] for _ in range(2)] == [200, 501]
    connection.writer.close()


async def test_http_1_0_needs_no_host_and_is_told_nothing_before_its_answer(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(b"POST /jobs HTTP/1.0\r\nExpect: 100-continue\r\n" + LENGTH + b"\r\n")
    await connection.send(BODY)
    assert (await taken_in(api, connection)).payload == PAYLOAD
    assert await connection.ended()

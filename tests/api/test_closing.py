"""How connections end: behind all that was asked, and with an answer that arrives."""

from __future__ import annotations

import asyncio

import pytest

from gateway.api import outlet, protocol
from tests.api.running import Running
from tests.api.test_limits import HEAD, JOB, WAIT_S, Connection, _until_closed
from tests.waiting import until

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
GARBAGE = b"GARBAGE\r\n\r\n"
SUBMIT = HEAD + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB
LATER = b'{"target":"echo","delay":"1h"}'
HELD = HEAD + b"Prefer: wait=1\r\nContent-Length: %d\r\n\r\n" % len(LATER) + LATER
EVENTS = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 20 * 1024 * 1024


def early(length: int, *, path: bytes = b"/nope", more: bytes = b"") -> bytes:
    """The head of a request that is answered before its body comes."""
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n" % (path, more, length)


@pytest.mark.parametrize(("path", "status"), [(b"/nope", 404), (b"/livez", 405)])
async def test_request_with_a_large_body_gets_its_early_answer_and_the_connection_is_kept(
    api: Running, path: bytes, status: int
) -> None:
    connection = await Connection.open(api)
    await connection.send(early(LARGE, path=path))
    await connection.send(b"a" * LARGE)
    await connection.send(LIVEZ)
    assert (await connection.answer())[0] == status
    assert (await connection.answer())[0] == 200
    connection.writer.close()


async def test_early_answer_that_closes_reaches_a_client_that_is_still_sending(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(early(LARGE, more=b"Connection: close\r\n"))
    await connection.send(b"a" * LARGE)
    assert (await connection.answer())[0] == 404
    assert await connection.ended()


async def test_rest_of_an_answered_request_is_no_head(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.05)
    connection = await Connection.open(api)
    await connection.send(early(20))
    assert (await connection.answer())[0] == 404
    await connection.send(b"a" * 20)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connection.reader.read(1), 0.3)
    await connection.send(LIVEZ)
    assert (await connection.answer())[0] == 200
    connection.writer.close()


async def test_rest_of_an_answered_request_is_not_waited_for_long(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "DISCARD_S", 0.05)
    connection = await Connection.open(api)
    await connection.send(early(20))
    assert (await connection.answer())[0] == 404
    assert await connection.ended()


async def test_rest_of_an_answered_request_is_discarded_within_a_bound(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(early(1 << 40))
    assert await _until_closed(connection, b"a" * 65536, most=4 * outlet.MAX_DISCARDED_BYTES)


@pytest.mark.parametrize("before", [SUBMIT, HELD])
async def test_refusal_comes_behind_the_answers_under_way(api: Running, before: bytes) -> None:
    connection = await Connection.open(api)
    await connection.send(before + LIVEZ + GARBAGE)
    assert [(await connection.answer())[0] for _ in range(3)] == [202, 200, 400]
    assert await connection.ended()


async def test_refusal_is_the_answer_of_a_request_whose_body_is_at_fault(api: Running) -> None:
    connection = await Connection.open(api)
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    await connection.send(HELD + head + b"xyz\r\n")
    assert [(await connection.answer())[0] for _ in range(2)] == [202, 400]
    assert await connection.ended()
    other = await Connection.open(api)
    await other.send(head + b"3\r\nabc\r\n")
    await other.send(b"xyz\r\n")
    assert (await other.answer())[0] == 400
    assert await other.ended()


async def test_stream_is_not_broken_into_by_a_refusal(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(EVENTS)
    async with asyncio.timeout(WAIT_S):
        await connection.reader.readuntil(b"as they happen\n\n")
        await connection.send(GARBAGE)
        await api.client.post("/jobs", content=JOB)
        stream = await connection.reader.readuntil(b'"type":"accepted"')
    assert b"HTTP/1.1" not in stream
    connection.writer.close()


async def test_requests_far_ahead_of_their_answers_are_refused_behind_them(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(LIVEZ * 60)
    statuses = [(await connection.answer())[0] for _ in range(protocol.MAX_PIPELINED + 2)]
    assert statuses == [200] * (protocol.MAX_PIPELINED + 1) + [429]
    assert await connection.ended()


async def test_every_request_of_a_client_that_left_learns_of_it(api: Running, caplog: pytest.LogCaptureFixture) -> None:
    async def over() -> bool:
        return "\ngateway_event_streams 0.0" in (await api.client.get("/metrics")).text

    connection = await Connection.open(api)
    await connection.send(EVENTS + LIVEZ)
    async with asyncio.timeout(WAIT_S):
        await connection.reader.readuntil(b"as they happen\n\n")
    assert not await over()
    connection.writer.close()
    await connection.writer.wait_closed()
    await until(over)
    assert not [each for each in caplog.records if each.name == "uvicorn.error"]

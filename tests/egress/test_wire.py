"""What goes over the wire: one request, framed once, whatever its parts hold; and answers that have no body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.egress.client import EgressClient
from tests.egress.receiver import Peer, Receiver, always, answer, nowhere, resolving


@pytest.fixture
async def client() -> AsyncIterator[EgressClient]:
    async with EgressClient(["127.0.0.0/8", "::1"], lookup=nowhere) as client:
        yield client


@pytest.mark.parametrize("value", ["a\r\nx-b: c", "a\nb", "a\rb", "a\0b", "\r\n\r\nGET / HTTP/1.1", "a\r\n"])
async def test_value_that_would_end_its_line_is_refused(client: EgressClient, value: str) -> None:
    async with Receiver(always(answer())) as receiver:
        with pytest.raises(ValueError, match="line break or a NUL"):
            await client.request("POST", receiver.url, headers=[("x-a", value)], body=b"{}", timeout_s=5)
        assert receiver.connections == 0


@pytest.mark.parametrize("name", ["x\r\ny", "x y", "x:", "", "ä", "Content-Length", "transfer-encoding", "Host"])
async def test_name_that_is_none_or_frames_is_refused(client: EgressClient, name: str) -> None:
    async with Receiver(always(answer())) as receiver:
        with pytest.raises(ValueError, match="header"):
            await client.request("POST", receiver.url, headers=[(name, "1")], body=b"{}", timeout_s=5)
        assert receiver.connections == 0


@pytest.mark.parametrize("method", ["GE T", "GET\r\nx: y", "GET / HTTP/1.1\r\n\r\nPOST"])
async def test_method_that_is_no_token_is_refused(client: EgressClient, method: str) -> None:
    async with Receiver(always(answer())) as receiver:
        with pytest.raises(ValueError, match="Method"):
            await client.request(method, receiver.url, timeout_s=5)
        assert receiver.connections == 0


@pytest.mark.parametrize(
    ("method", "body", "length", "kind"),
    [
        ("GET", b"", [], []),
        ("POST", b"", ["0"], []),
        ("DELETE", b"", ["0"], []),
        ("POST", b"{}", ["2"], ["application/octet-stream"]),
        ("get", b"{}", ["2"], ["application/octet-stream"]),
    ],
)
async def test_body_is_framed_by_one_length(
    client: EgressClient, method: str, body: bytes, length: list[str], kind: list[str]
) -> None:
    async with Receiver(always(answer())) as receiver:
        await client.request(method, receiver.url, body=body, timeout_s=5)
    (seen,) = receiver.requests
    assert (seen.method, seen.body) == (method.upper(), body)
    assert (seen.values("content-length"), seen.values("content-type")) == (length, kind)
    assert seen.values("transfer-encoding") == []


async def test_given_headers_go_before_our_own(client: EgressClient) -> None:
    given = [("User-Agent", "shop/1"), ("Content-Type", "text/plain"), ("Accept", "text/html")]
    async with Receiver(always(answer())) as receiver:
        await client.request("POST", receiver.url, headers=[*given, ("x-a", "ü")], body=b"{}", timeout_s=5)
    (seen,) = receiver.requests
    assert [seen.values(name) for name in ("user-agent", "content-type", "accept")] == [
        ["shop/1"],
        ["text/plain"],
        ["text/html"],
    ]
    assert seen.values("x-a")[0].encode("latin-1").decode() == "ü"


async def test_host_is_written_as_servers_expect_it() -> None:
    async with (
        Receiver(always(answer()), host="::1") as six,
        Receiver(always(answer())) as four,
        EgressClient(["127.0.0.1", "::1"], lookup=resolving(pay_internal_=["127.0.0.1"])) as client,
    ):
        await client.request("GET", six.url, timeout_s=5)
        await client.request("GET", f"http://PAY.internal.:{four.port}/ä?b=ö", timeout_s=5)
    assert six.requests[0].values("host") == [f"[::1]:{six.port}"]
    assert four.requests[0].values("host") == [f"pay.internal:{four.port}"]
    assert four.requests[0].path == "/%C3%A4?b=%C3%B6"


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"),
    ],
)
async def test_answer_without_a_body_leaves_its_connection_usable(
    client: EgressClient, method: str, data: bytes
) -> None:
    async with Receiver(always(data)) as receiver:
        for _ in range(3):
            assert (await client.request(method, receiver.url, timeout_s=5)).body == b""
    assert (receiver.connections, len(receiver.requests)) == (1, 3)


async def test_early_answer_to_a_body_that_nobody_reads_is_read_and_its_connection_closed(
    client: EgressClient,
) -> None:
    async def script(peer: Peer) -> None:
        if peer.number > 1:
            await always(answer(body=b"second"))(peer)
            return
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.write(answer("413 Content Too Large", b"no"))
        await asyncio.Event().wait()

    async with Receiver(script) as receiver:
        response = await client.request("POST", receiver.url, body=bytes(32 << 20), timeout_s=10)
        assert (response.status, response.body) == (413, b"no")
        assert (await client.request("POST", receiver.url, body=b"{}", timeout_s=5)).body == b"second"
        assert receiver.connections == 2


async def test_many_requests_at_once_each_get_their_own_answer(client: EgressClient) -> None:
    async def script(peer: Peer) -> None:
        while (seen := await peer.read()) is not None:
            await peer.write(answer(body=seen.body))

    async with Receiver(script) as receiver:
        for _ in range(3):
            bodies = [str(number).encode() for number in range(40)]
            requests = [client.request("POST", receiver.url, body=body, timeout_s=10) for body in bodies]
            assert [response.body for response in await asyncio.gather(*requests)] == bodies
        assert receiver.connections == 40

"""Hostile and merely unlucky peers: every one ends in a bounded answer or a named error."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
from collections.abc import AsyncIterator

import pytest

from gateway import HttpError
from gateway.egress.client import EgressClient
from gateway.egress.exchange import READ_BYTES
from tests.egress.receiver import Peer, Receiver, Script, always, answer, kind_of, nowhere, replies, resolving, stall

CAP = 65536
LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture
async def client() -> AsyncIterator[EgressClient]:
    async with EgressClient(LOOPBACK, lookup=nowhere) as client:
        yield client


def floods(head: bytes, chunk: bytes, sent: list[int]) -> Script:
    """Writes `head` and then `chunk` for ever, and counts the bytes it got rid of."""

    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(head)
        while True:
            await peer.write(chunk)
            sent[0] += len(chunk)

    return script


async def test_answer_comes_back_with_status_headers_and_body(client: EgressClient) -> None:
    data = answer("201 Created", b'{"ok": true}', "Content-Type: application/json", "X-A: 1", "X-A: \xe4")
    async with Receiver(always(data)) as receiver:
        response = await client.request(
            "PUT", receiver.url + "?a=b%20c", headers=[("x-b", "2")], body=b'{"n": 1.0}', timeout_s=5
        )
    assert (response.status, response.body, response.truncated) == (201, b'{"ok": true}', False)
    assert [value for name, value in response.headers if name == "x-a"] == ["1", "ä"]
    assert response.header("content-type") == "application/json"
    (seen,) = receiver.requests
    assert (seen.method, seen.path, seen.body) == ("PUT", "/in?a=b%20c", b'{"n": 1.0}')
    assert seen.values("x-b") == ["2"]
    assert seen.values("accept-encoding") == ["identity"]
    assert seen.values("user-agent") == ["event-gateway"]
    assert seen.values("host") == [f"127.0.0.1:{receiver.port}"]


async def test_answer_longer_than_what_is_read_ahead_comes_back_whole(client: EgressClient) -> None:
    body = b"x" * (16 * READ_BYTES)
    async with Receiver(always(answer(body=body))) as receiver:
        for _ in range(2):  # the second on a kept connection
            response = await client.request("POST", receiver.url, timeout_s=10, max_body=len(body))
            assert (response.body, response.truncated) == (body, False)
        response = await client.request("POST", receiver.url, timeout_s=10, max_body=len(body) - 1)
        assert (response.body, response.truncated) == (body[:-1], True)


async def test_connection_is_kept_for_the_next_request(client: EgressClient) -> None:
    async with Receiver(always(answer(body=b"x"))) as receiver:
        for _ in range(5):
            await client.request("POST", receiver.url, body=b"{}", timeout_s=5)
    assert (receiver.connections, len(receiver.requests)) == (1, 5)


async def test_cookies_are_not_carried_to_the_next_request() -> None:
    async with (
        Receiver(always(answer("200 OK", b"", "Set-Cookie: a=b; Path=/"))) as receiver,
        EgressClient(LOOPBACK, lookup=resolving(pay_internal=["127.0.0.1"])) as client,
    ):
        for _ in range(2):
            await client.request("GET", f"http://pay.internal:{receiver.port}/", timeout_s=5)
    assert [each.values("cookie") for each in receiver.requests] == [[], []]


async def test_large_body_is_sent_whole(client: EgressClient) -> None:
    body = bytes(3 << 20)
    async with Receiver(always(answer())) as receiver:
        await client.request("POST", receiver.url, body=body, timeout_s=20)
    assert receiver.requests[0].body == body


@pytest.mark.parametrize(("size", "truncated"), [(CAP - 1, False), (CAP, False), (CAP + 1, True)])
async def test_body_is_truncated_only_beyond_its_cap(client: EgressClient, size: int, truncated: bool) -> None:
    async with Receiver(always(answer(body=b"x" * size))) as receiver:
        response = await client.request("GET", receiver.url, timeout_s=5)
    assert (len(response.body), response.truncated) == (min(size, CAP), truncated)


async def test_infinite_body_is_capped_and_its_connection_closed(client: EgressClient) -> None:
    sent = [0]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with Receiver(floods(head, b"8000\r\n" + b"x" * 0x8000 + b"\r\n", sent)) as receiver:
        response = await client.request("GET", receiver.url, timeout_s=10, max_body=1000)
        await asyncio.wait_for(receiver.left.wait(), 10)
    assert (response.body, response.truncated) == (b"x" * 1000, True)
    assert sent[0] < 16 << 20  # socket buffers, not the heap


async def test_gzip_bomb_is_not_inflated(client: EgressClient) -> None:
    bomb = gzip.compress(bytes(32 << 20))
    assert len(bomb) < CAP
    async with Receiver(always(answer("200 OK", bomb, "Content-Encoding: gzip"))) as receiver:
        response = await client.request("GET", receiver.url, timeout_s=5)
    assert response.body == bomb


async def test_huge_header_is_refused_long_before_its_end(client: EgressClient) -> None:
    sent = [0]
    async with Receiver(floods(b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 65536, sent)) as receiver:
        assert await kind_of(client.request("GET", receiver.url, timeout_s=10)) == "too_large"
        await asyncio.wait_for(receiver.left.wait(), 10)
    assert sent[0] < 10 << 20


async def test_endless_headers_are_refused(client: EgressClient) -> None:
    sent = [0]
    async with Receiver(floods(b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n" * 4096, sent)) as receiver:
        assert await kind_of(client.request("GET", receiver.url, timeout_s=10)) == "too_large"


async def test_header_dribble_ends_at_the_total_deadline(client: EgressClient) -> None:
    async def dribble(peer: Peer) -> None:
        await peer.read()
        await peer.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        while True:
            await peer.write(b"a")
            await asyncio.sleep(0.1)

    async with Receiver(dribble) as receiver:
        begun = time.monotonic()
        assert await kind_of(client.request("POST", receiver.url, timeout_s=0.6)) == "timeout"
        assert 0.5 < time.monotonic() - begun < 20
        await asyncio.wait_for(receiver.left.wait(), 5)


async def test_body_dribble_ends_at_the_total_deadline(client: EgressClient) -> None:
    async def dribble(peer: Peer) -> None:
        await peer.read()
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await peer.write(b"a")
            await asyncio.sleep(0.1)

    async with Receiver(dribble) as receiver:
        assert await kind_of(client.request("POST", receiver.url, timeout_s=0.6)) == "timeout"


async def test_stalling_peer_ends_at_the_total_deadline(client: EgressClient) -> None:
    async with Receiver(stall) as receiver:
        begun = time.monotonic()
        assert await kind_of(client.request("POST", receiver.url, timeout_s=0.3)) == "timeout"
        assert time.monotonic() - begun < 20
        await asyncio.wait_for(receiver.left.wait(), 5)


async def test_connection_that_is_not_there_in_its_own_time_is_none(client: EgressClient) -> None:
    async with Receiver(stall) as receiver:  # it takes the connection, and says nothing of TLS
        with pytest.raises(
            HttpError, match=rf"no connection to 127.0.0.1:{receiver.port} within .* of 0.2 s"
        ) as caught:
            await client.request("POST", receiver.url.replace("http:", "https:"), timeout_s=60, connect_timeout_s=0.2)
    assert caught.value.kind == "connect"


async def test_no_time_left_is_a_timeout_and_not_for_ever(client: EgressClient) -> None:
    async with Receiver(stall) as receiver:
        assert await kind_of(client.request("POST", receiver.url, timeout_s=0.0)) == "timeout"
    assert receiver.connections == 0


async def test_stalled_connections_hold_up_no_other_host(client: EgressClient) -> None:
    async with Receiver(stall) as slow, Receiver(always(answer(body=b"quick"))) as quick:
        stalled = [asyncio.create_task(client.request("POST", slow.url, timeout_s=20)) for _ in range(150)]
        await slow.arrived(150)
        response = await client.request("POST", quick.url, timeout_s=5)
        assert response.body == b"quick"
        for task in stalled:
            task.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)


async def test_cancelled_request_closes_its_connection(client: EgressClient) -> None:
    async with Receiver(stall) as receiver:
        task = asyncio.create_task(client.request("POST", receiver.url, timeout_s=20))
        await receiver.arrived()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(receiver.left.wait(), 5)


async def test_body_shorter_than_its_length_is_a_protocol_error(client: EgressClient) -> None:
    async with Receiver(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")) as receiver:
        assert await kind_of(client.request("POST", receiver.url, timeout_s=5)) == "protocol"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"-ERR unknown command 'POST'\r\n",
        b"HTTP/9.9 abc\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 000 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 099 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 1000 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 20 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 -200 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_not_http_is_a_protocol_error(client: EgressClient, data: bytes) -> None:
    async with Receiver(replies(data)) as receiver:
        with pytest.raises(HttpError) as caught:
            await client.request("POST", receiver.url, timeout_s=5)
    assert caught.value.kind == "protocol"
    assert not any(part in str(caught.value) for part in ("OpenSSH", "ERR", "abc", "zz"))  # nothing reflected


async def test_interim_answers_are_skipped(client: EgressClient) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with Receiver(always(interim * 3 + answer(body=b"final"))) as receiver:
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"final"


async def test_endless_interim_answers_are_refused_at_once(client: EgressClient) -> None:
    sent = [0]
    async with Receiver(floods(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000, sent)) as receiver:
        begun = time.monotonic()
        assert await kind_of(client.request("POST", receiver.url, timeout_s=60)) == "too_large"
        assert time.monotonic() - begun < 20
        await asyncio.wait_for(receiver.left.wait(), 5)
    assert sent[0] < 10 << 20


async def test_refused_connection_is_named_connect(client: EgressClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(HttpError, match=rf"connection refused by 127\.0\.0\.1:{port}\Z") as failed:
        await client.request("POST", f"http://127.0.0.1:{port}/", timeout_s=5)
    assert failed.value.kind == "connect"


async def test_name_that_does_not_exist_is_named_dns() -> None:
    async with EgressClient(lookup=resolving()) as client:
        with pytest.raises(HttpError, match=r"no-such\.example cannot be resolved: ") as failed:
            await client.request("POST", "http://no-such.example/", timeout_s=5)
    assert failed.value.kind == "dns"
    assert "ssl" not in str(failed.value)


async def test_lookup_that_hangs_ends_at_the_total_deadline() -> None:
    async def hangs(host: str) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with EgressClient(lookup=hangs) as client:
        assert await kind_of(client.request("POST", "http://slow.example/", timeout_s=0.2)) == "timeout"


async def test_system_resolver_is_used_without_another(client: EgressClient) -> None:
    async with (
        Receiver(always(answer(body=b"local"))) as receiver,
        EgressClient(["127.0.0.1", "::1"]) as system,
    ):
        response = await system.request("GET", f"http://localhost:{receiver.port}/", timeout_s=5)
    assert response.body == b"local"

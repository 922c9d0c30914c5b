"""Hostile and merely unlucky peers: every one ends in a bounded answer or a named error."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway import EgressDenied, HttpError
from gateway.egress.client import EgressClient
from tests.egress.receiver import Peer, Receiver, Script, always, answer, nowhere, resolving, stall

CAP = 65536
LOOPBACK = ["127.0.0.0/8"]
KEYED = [("idempotency-key", "1")]


@pytest.fixture
async def client() -> AsyncIterator[EgressClient]:
    async with EgressClient(LOOPBACK, lookup=nowhere) as client:
        yield client


async def kind_of(request: Awaitable[object]) -> str:
    with pytest.raises(HttpError) as caught:
        await request
    return caught.value.kind


def floods(head: bytes, chunk: bytes, sent: list[int]) -> Script:
    """Writes `head` and then `chunk` for ever, and counts the bytes it got rid of."""

    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(head)
        while True:
            await peer.write(chunk)
            sent[0] += len(chunk)

    return script


def replies(data: bytes) -> Script:
    """Answers the first request of each connection with raw bytes, and closes."""

    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(data)

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
        assert await kind_of(client.request("GET", receiver.url, timeout_s=10)) == "protocol"
        await asyncio.wait_for(receiver.left.wait(), 10)
    assert sent[0] < 10 << 20


async def test_endless_headers_are_refused(client: EgressClient) -> None:
    sent = [0]
    async with Receiver(floods(b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n" * 4096, sent)) as receiver:
        assert await kind_of(client.request("GET", receiver.url, timeout_s=10)) == "protocol"


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
        assert 0.5 < time.monotonic() - begun < 3
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
        assert time.monotonic() - begun < 3
        await asyncio.wait_for(receiver.left.wait(), 5)


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


async def test_reset_before_any_byte_is_not_repeated_on_a_fresh_connection(client: EgressClient) -> None:
    async def reset(peer: Peer) -> None:
        await peer.read()
        peer.reset()

    async with Receiver(reset) as receiver:
        assert await kind_of(client.request("POST", receiver.url, headers=KEYED, body=b"{}", timeout_s=5)) == "reset"
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


async def test_body_shorter_than_its_length_is_a_protocol_error(client: EgressClient) -> None:
    async with Receiver(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")) as receiver:
        assert await kind_of(client.request("POST", receiver.url, timeout_s=5)) == "protocol"


async def test_body_longer_than_its_length_never_becomes_the_next_answer(client: EgressClient) -> None:
    smuggled = answer("200 OK", b"first") + answer("200 OK", b"smuggled")

    async def script(peer: Peer) -> None:
        while await peer.read() is not None:
            await peer.write(smuggled if peer.number == 1 else answer(body=b"second"))

    async with Receiver(script) as receiver:
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"first"
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"second"


async def test_answer_that_nobody_asked_for_never_becomes_the_next_answer(client: EgressClient) -> None:
    unasked = asyncio.Event()
    written = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(answer(body=str(peer.number).encode()))
        if peer.number == 1:
            await unasked.wait()
            await peer.write(answer("408 Request Timeout", b"unasked"))
            written.set()
        await peer.read()

    async with Receiver(script) as receiver:
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"1"
        unasked.set()
        await asyncio.wait_for(written.wait(), 5)
        for _ in range(5):
            await asyncio.sleep(0)  # the bytes are in the client's socket: each turn of the loop polls it
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"2"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"-ERR unknown command 'POST'\r\n",
        b"HTTP/9.9 abc\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_not_http_is_a_protocol_error(client: EgressClient, data: bytes) -> None:
    async with Receiver(replies(data)) as receiver:
        assert await kind_of(client.request("POST", receiver.url, timeout_s=5)) == "protocol"


async def test_interim_answers_are_skipped(client: EgressClient) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with Receiver(always(interim * 3 + answer(body=b"final"))) as receiver:
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"final"


async def test_refused_connection_is_named_connect(client: EgressClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    assert await kind_of(client.request("POST", f"http://127.0.0.1:{port}/", timeout_s=5)) == "connect"


async def test_name_that_does_not_exist_is_named_dns() -> None:
    async with EgressClient(lookup=resolving()) as client:
        assert await kind_of(client.request("POST", "http://no-such.example/", timeout_s=5)) == "dns"


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


def closes_second(close: Callable[[Peer], None], *, only_first: bool = True) -> Script:
    """The first connection answers once and closes on its second request; later ones work if `only_first`."""

    async def script(peer: Peer) -> None:
        await peer.read()
        if peer.number > 1 and not only_first:
            return close(peer)
        await peer.write(answer(body=str(peer.number).encode()))
        await peer.read()
        close(peer)

    return script


def finish(peer: Peer) -> None:
    peer.writer.close()


def half_answer(peer: Peer) -> None:
    peer.writer.write(b"HTTP/1.1 2")
    peer.writer.close()


@pytest.mark.parametrize("close", [finish, Peer.reset])
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
async def test_kept_connection_that_just_closed_is_no_failure(
    client: EgressClient, close: Callable[[Peer], None], method: str
) -> None:
    async with Receiver(closes_second(close)) as receiver:
        assert (await client.request("POST", receiver.url, timeout_s=5)).body == b"1"
        response = await client.request(method, receiver.url, headers=KEYED, body=b"{}", timeout_s=5)
    assert response.body == b"2"
    assert [each.body for each in receiver.requests] == [b"", b"{}", b"{}"]


async def test_large_body_is_repeated_whole(client: EgressClient) -> None:
    body = b"x" * (2 << 20)
    async with Receiver(closes_second(finish)) as receiver:
        await client.request("POST", receiver.url, timeout_s=5)
        await client.request("POST", receiver.url, headers=KEYED, body=body, timeout_s=20)
    assert [each.body for each in receiver.requests] == [b"", body, body]


async def test_closed_connection_is_repeated_only_once(client: EgressClient) -> None:
    async with Receiver(closes_second(finish, only_first=False)) as receiver:
        await client.request("POST", receiver.url, timeout_s=5)
        assert await kind_of(client.request("POST", receiver.url, headers=KEYED, timeout_s=5)) == "reset"
    assert len(receiver.requests) == 3


async def test_request_without_an_idempotency_key_is_not_repeated(client: EgressClient) -> None:
    async with Receiver(closes_second(finish)) as receiver:
        await client.request("POST", receiver.url, timeout_s=5)
        assert await kind_of(client.request("POST", receiver.url, timeout_s=5)) == "reset"
    assert len(receiver.requests) == 2


async def test_request_is_not_repeated_after_a_byte_of_answer(client: EgressClient) -> None:
    async with Receiver(closes_second(half_answer)) as receiver:
        await client.request("POST", receiver.url, timeout_s=5)
        assert await kind_of(client.request("POST", receiver.url, headers=KEYED, timeout_s=5)) in ("reset", "protocol")
    assert len(receiver.requests) == 2


def own_certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server context for `pay.internal` with a certificate that nobody has signed, and its file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pay.internal")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("pay.internal")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context, path


async def test_certificate_and_host_name_are_verified(tmp_path: Path) -> None:
    server, path = own_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(path))
    lookup = resolving(pay_internal=["127.0.0.1"], other_internal=["127.0.0.1"])
    async with Receiver(always(answer(body=b"safe")), tls=server) as receiver:
        async with EgressClient(LOOPBACK, lookup=lookup) as client:
            url = f"https://pay.internal:{receiver.port}/"
            assert await kind_of(client.request("GET", url, timeout_s=5)) == "tls"
        async with EgressClient(LOOPBACK, lookup=lookup, tls=trusting) as client:
            assert (await client.request("GET", url, timeout_s=5)).body == b"safe"
            other = f"https://other.internal:{receiver.port}/"
            assert await kind_of(client.request("GET", other, timeout_s=5)) == "tls"
        assert len(receiver.requests) == 1


async def test_plain_peer_on_a_tls_port_is_named_tls(client: EgressClient) -> None:
    async def speaks_first(peer: Peer) -> None:
        await peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.read()

    async with Receiver(speaks_first) as receiver:
        url = receiver.url.replace("http:", "https:")
        assert await kind_of(client.request("GET", url, timeout_s=5)) == "tls"


def test_client_behaves_the_same_under_uvloop() -> None:
    async def scenario() -> None:
        lookup = resolving(mixed_example=["127.0.0.1", "::1"], both_example=["127.0.0.1", "127.0.0.1"])
        async with (
            EgressClient(LOOPBACK, lookup=lookup) as client,
            EgressClient(lookup=lookup) as strict,
            Receiver(closes_second(Peer.reset)) as closing,
            Receiver(always(answer(body=b"x" * (CAP + 1)))) as large,
            Receiver(stall) as stalling,
        ):
            assert (await client.request("POST", closing.url, timeout_s=5)).body == b"1"
            assert (await client.request("POST", closing.url, headers=KEYED, timeout_s=5)).body == b"2"
            assert (await client.request("GET", f"http://both.example:{large.port}/", timeout_s=5)).truncated
            assert await kind_of(client.request("POST", stalling.url, timeout_s=0.2)) == "timeout"
            for host in ("127.0.0.1", "[::1]", "mixed.example", "both.example"):
                with pytest.raises(EgressDenied):
                    await strict.request("GET", f"http://{host}:{large.port}/", timeout_s=5)

    uvloop.run(scenario())

"""Connections that are kept: what just closed is repeated where that is safe, and no answer is mistaken."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway import EgressDenied
from gateway.egress.client import EgressClient
from tests.egress.receiver import Peer, Receiver, Script, always, answer, kind_of, nowhere, resolving, stall

CAP = 65536
LOOPBACK = ["127.0.0.0/8"]
KEYED = [("idempotency-key", "1")]


@pytest.fixture
async def client() -> AsyncIterator[EgressClient]:
    async with EgressClient(LOOPBACK, lookup=nowhere) as client:
        yield client


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


async def test_reset_before_any_byte_is_not_repeated_on_a_fresh_connection(client: EgressClient) -> None:
    async def reset(peer: Peer) -> None:
        await peer.read()
        peer.reset()

    async with Receiver(reset) as receiver:
        assert await kind_of(client.request("POST", receiver.url, headers=KEYED, body=b"{}", timeout_s=5)) == "reset"
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


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


@pytest.mark.parametrize("close", [finish, Peer.reset])
async def test_repeat_takes_no_other_kept_connection(client: EgressClient, close: Callable[[Peer], None]) -> None:
    together = asyncio.Barrier(4)

    async def script(peer: Peer) -> None:
        await peer.read()
        if peer.number <= 4:
            await together.wait()
        await peer.write(answer(body=str(peer.number).encode()))
        await peer.read()
        close(peer)

    async with Receiver(script) as receiver:
        await asyncio.gather(*[client.request("POST", receiver.url, timeout_s=5) for _ in range(4)])
        response = await client.request("POST", receiver.url, headers=KEYED, timeout_s=5)
        assert (response.body, receiver.connections) == (b"5", 5)
    assert len(receiver.requests) == 6, "of the kept connections only one was tried"


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

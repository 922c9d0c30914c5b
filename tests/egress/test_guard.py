"""What may be reached: a listening server on loopback must never see a connection that was not allowed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from gateway import EgressDenied
from gateway.egress.client import EgressClient
from tests.egress.receiver import Receiver, always, answer, nowhere, resolving
from tests.egress.spellings import DENIED, loopback

LOOPBACK = "127.0.0.1/32"


@pytest.fixture
async def inside() -> AsyncIterator[Receiver]:
    async with Receiver(always(answer(body=b"inside"))) as receiver:
        yield receiver


@pytest.mark.parametrize("host", DENIED)
async def test_host_is_denied_before_a_connection_however_it_is_spelled(inside: Receiver, host: str) -> None:
    async with EgressClient(lookup=loopback) as client:
        with pytest.raises(EgressDenied, match=r"to \[egress\] allow"):
            await client.request("POST", f"http://{host}:{inside.port}/in", body=b"{}", timeout_s=5)
    assert inside.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pw@127.0.0.1:{port}/",
        "http://2130706433:{port}/",
        "http://127.1:{port}/",
        "http://0177.0.0.1:{port}/",
        "http://0x7f.1:{port}/",
        "http://127.0.0.1.:{port}/",
        "http://127.0.0.%31:{port}/",
        "http://[fe80::1%25lo]:{port}/",
        "tcp://127.0.0.1:{port}/",
        "ws://127.0.0.1:{port}/",
        "http://example.com\\@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}/#part",
    ],
)
async def test_url_is_refused_before_a_connection(inside: Receiver, url: str) -> None:
    async with EgressClient([LOOPBACK], lookup=loopback) as client:
        with pytest.raises(ValueError, match=r"URL|host name|address"):
            await client.request("POST", url.format(port=inside.port), timeout_s=5)
    assert inside.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "①②⑦.⓪.⓪.①", "[::ffff:127.0.0.1]", "pay.internal"])
async def test_allowed_network_is_reached_however_it_is_spelled(inside: Receiver, host: str) -> None:
    async with EgressClient([LOOPBACK], lookup=resolving(pay_internal=["127.0.0.1"])) as client:
        response = await client.request("GET", f"http://{host}:{inside.port}/in", timeout_s=5)
    assert response.body == b"inside"


async def test_allowed_ipv6_network_is_reached() -> None:
    async with Receiver(always(answer(body=b"six")), host="::1") as receiver:
        async with EgressClient(["::1"], lookup=nowhere) as client:
            assert (await client.request("GET", receiver.url, timeout_s=5)).body == b"six"
        async with EgressClient([LOOPBACK], lookup=nowhere) as client:
            with pytest.raises(EgressDenied, match='add "::1/128"'):
                await client.request("GET", receiver.url, timeout_s=5)
        assert receiver.connections == 1


async def test_allow_list_opens_only_the_address_it_names(inside: Receiver) -> None:
    async with EgressClient(["127.0.0.2/32"], lookup=loopback) as client:
        for host in ("127.0.0.1", "pay.internal"):
            with pytest.raises(EgressDenied, match=r'add "127\.0\.0\.1/32" to \[egress\] allow'):
                await client.request("GET", f"http://{host}:{inside.port}/", timeout_s=5)
    assert inside.connections == 0


async def test_allowed_name_opens_itself_and_nothing_else(inside: Receiver) -> None:
    lookup = resolving(pay_internal=["127.0.0.1"], evil_example=["127.0.0.1"], pay_internal_evil_example=["127.0.0.1"])
    async with EgressClient(["Pay.Internal"], lookup=lookup) as client:
        for host in ("pay.internal", "PAY.internal"):
            response = await client.request("GET", f"http://{host}:{inside.port}/in", timeout_s=5)
            assert response.body == b"inside"
        reached = inside.connections
        for host in ("evil.example", "127.0.0.1", "pay.internal.evil.example"):
            with pytest.raises(EgressDenied):
                await client.request("GET", f"http://{host}:{inside.port}/in", timeout_s=5)
        assert inside.connections == reached


async def test_name_is_denied_before_a_connection_when_one_answer_is_private(inside: Receiver) -> None:
    lookup = resolving(mixed_example=["127.0.0.1", "10.0.0.1"])
    async with EgressClient([LOOPBACK], lookup=lookup) as client:
        with pytest.raises(EgressDenied, match=r"mixed\.example resolves to 10\.0\.0\.1"):
            await client.request("GET", f"http://mixed.example:{inside.port}/", timeout_s=5)
    assert inside.connections == 0


async def test_rebinding_name_is_denied_when_its_second_answer_is_private() -> None:
    answers = iter([["127.0.0.2"], ["127.0.0.1"]])

    async def rebinds(host: str) -> list[str]:
        return next(answers)

    async with (
        Receiver(always(answer(body=b"outside")), host="127.0.0.2") as outside,
        Receiver(always(answer(body=b"inside"))) as inside,
        EgressClient(["127.0.0.2/32"], lookup=rebinds) as client,
    ):
        first = await client.request("GET", f"http://rebinds.example:{outside.port}/", timeout_s=5)
        assert first.body == b"outside"
        with pytest.raises(EgressDenied, match=r"resolves to 127\.0\.0\.1"):
            await client.request("GET", f"http://rebinds.example:{inside.port}/", timeout_s=5)
        assert inside.connections == 0


async def test_many_denied_requests_at_once_each_learn_why(inside: Receiver) -> None:
    async with EgressClient(lookup=loopback) as client:
        url = f"http://pay.internal:{inside.port}/"
        results = await asyncio.gather(
            *(client.request("GET", url, timeout_s=5) for _ in range(20)), return_exceptions=True
        )
    assert [type(each) for each in results] == [EgressDenied] * 20
    assert inside.connections == 0


async def test_redirect_is_not_followed(inside: Receiver) -> None:
    location = f"Location: http://127.0.0.1:{inside.port}/secret"
    async with (
        Receiver(always(answer("302 Found", b"", location)), host="127.0.0.2") as outside,
        EgressClient(["127.0.0.0/8"], lookup=nowhere) as client,
    ):
        response = await client.request("POST", outside.url, body=b"{}", timeout_s=5)
    assert response.status == 302
    assert inside.connections == 0


async def test_proxy_of_the_environment_is_not_used(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver(always(answer(body=b"proxy"))) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with EgressClient([LOOPBACK], lookup=nowhere) as client:
            assert (await client.request("GET", inside.url, timeout_s=5)).body == b"inside"
        assert proxy.connections == 0


async def test_framing_header_is_refused_before_a_connection(inside: Receiver) -> None:
    async with EgressClient([LOOPBACK], lookup=nowhere) as client:
        for name in ("Host", "Content-Length", "Content-Length ", "Transfer-Encoding", "Expect", "Accept-Encoding"):
            with pytest.raises(ValueError, match=name):
                await client.request("POST", inside.url, headers=[(name, "1")], body=b"{}", timeout_s=5)
    assert inside.connections == 0


@pytest.mark.parametrize("header", [("a", "b\r\nHost: c"), ("a", "b\nc"), ("a", "b\x00"), ("a\r\nHost", "b")])
async def test_header_with_a_line_break_is_refused_before_a_byte(inside: Receiver, header: tuple[str, str]) -> None:
    async with EgressClient([LOOPBACK], lookup=nowhere) as client:
        with pytest.raises(ValueError, match=r"(?i)header"):
            await client.request("POST", inside.url, headers=[header], body=b"{}", timeout_s=5)
    assert inside.requests == []


async def test_unstarted_client_says_so() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        await EgressClient().request("GET", "http://example.com/", timeout_s=1)


def test_ipv6_loopback_is_there() -> None:
    """The two IPv6 tests above prove something only where ::1 can be bound."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6):
        pass

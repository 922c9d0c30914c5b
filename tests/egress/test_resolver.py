from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.egress.addresses import AddressDenied, parse_allow
from gateway.egress.resolver import GuardedResolver, SystemLookup
from tests.egress.receiver import resolving


@pytest.fixture
async def lookup() -> AsyncIterator[SystemLookup]:
    found = SystemLookup(threads=2)
    yield found
    found.close()


async def test_system_lookup_finds_the_addresses_of_a_name(lookup: SystemLookup) -> None:
    assert set(await lookup("localhost")) & {"127.0.0.1", "::1"}


async def test_system_lookup_fails_as_the_system_says(lookup: SystemLookup) -> None:
    with pytest.raises(socket.gaierror):
        await lookup("no-such-host.invalid")


async def test_name_that_hangs_holds_one_thread_and_delays_no_other(
    lookup: SystemLookup, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    release = threading.Event()

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host == "hangs.example":
            release.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("198.41.0.4", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        waiting = [asyncio.create_task(lookup("hangs.example")) for _ in range(20)]
        assert await asyncio.wait_for(lookup("quick.example"), 10) == ["198.41.0.4"]
        waiting[0].cancel()
        assert asked.count("hangs.example") == 1
    finally:
        release.set()
    rest = await asyncio.wait_for(asyncio.gather(*waiting[1:]), 10)
    assert rest == [["198.41.0.4"]] * 19


async def test_lookup_ends_when_its_time_is_over() -> None:
    async def hangs(host: str) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(socket.gaierror, match=r"no answer within 0\.05 s"):
        await GuardedResolver(hangs, parse_allow([]), timeout_s=0.05).resolve("slow.example", 80)


async def test_name_is_denied_when_any_answer_is() -> None:
    lookup = resolving(mixed_example=["198.41.0.4", "2606:4700::1", "10.0.0.1"], good_example=["198.41.0.4"])
    resolver = GuardedResolver(lookup, parse_allow([]))
    with pytest.raises(AddressDenied, match=r"mixed\.example resolves to 10\.0\.0\.1"):
        await resolver.resolve("mixed.example", 443)
    assert [(each["host"], each["port"]) for each in await resolver.resolve("good.example", 443)] == [
        ("198.41.0.4", 443)
    ]


async def test_name_without_addresses_does_not_exist() -> None:
    with pytest.raises(socket.gaierror):
        await GuardedResolver(resolving(empty_example=[]), parse_allow([])).resolve("empty.example", 80)

"""The client that opens when it is first needed: the same guard, opened once."""

from __future__ import annotations

import asyncio

import pytest

from gateway import EgressDenied
from gateway.egress.late import LateClient
from tests.egress.receiver import Receiver, always, answer

LOOPBACK = ["127.0.0.0/8"]


async def test_requests_that_open_it_together_share_its_connections() -> None:
    async with Receiver(always(answer(body=b"inside"))) as receiver, LateClient(LOOPBACK) as client:
        url = f"http://127.0.0.1:{receiver.port}/"
        answers = await asyncio.gather(*(client.request("GET", url, timeout_s=5) for _ in range(5)))
        assert [each.body for each in answers] == [b"inside"] * 5
        opened = receiver.connections
        assert (await client.request("GET", url, timeout_s=5)).status == 200
        assert receiver.connections == opened  # a client of its own would have brought one of its own


async def test_address_is_denied_from_the_first_request_on() -> None:
    async with Receiver(always(answer())) as receiver, LateClient() as client:
        for _ in range(2):
            with pytest.raises(EgressDenied):
                await client.request("GET", f"http://127.0.0.1:{receiver.port}/", timeout_s=5)
        assert receiver.connections == 0


async def test_it_opens_for_the_next_request_when_the_first_is_cancelled() -> None:
    async with Receiver(always(answer())) as receiver, LateClient(LOOPBACK) as client:
        url = f"http://127.0.0.1:{receiver.port}/"
        first = asyncio.ensure_future(client.request("GET", url, timeout_s=5))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await client.request("GET", url, timeout_s=5)).status == 200


async def test_entry_that_cannot_be_allowed_is_refused_before_it_opens() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/99"):
        LateClient(["10.0.0.0/99"])
    async with LateClient(LOOPBACK):
        """Never opened, and nothing to close."""

"""Channels on several servers: when one is away, nobody goes on reading from the others' connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ConnectionError

from gateway.keys import Keyspace
from gateway.store.channels import follow
from gateway.store.client import Client
from tests.servers import Server, free_ports


class Apart(Client):
    """A client of two servers: the first partition lies on the one, the second on the other."""

    apart: tuple[Client, Client]

    async def server_of(self, key: str) -> Client:
        return self.apart[int(":1}" in key)]


@pytest.fixture
async def apart() -> AsyncIterator[tuple[Apart, Server]]:
    with Server() as server:
        client = Apart.to(server.url)
        client.apart = (Client.to(server.url), Client.to(f"redis://127.0.0.1:{free_ports()[0]}"))
        try:
            yield client, server
        finally:
            server.resume()
            for each in (*client.apart, client):
                await each.aclose()


async def test_nobody_reads_on_when_one_of_the_servers_cannot_be_reached(apart: tuple[Apart, Server]) -> None:
    client, server = apart
    await client.apart[0].ping()
    server.suspend()  # so that the subscription there is under way when the other one fails
    before = asyncio.all_tasks()

    async def subscribed() -> None:
        raise AssertionError("one of the servers is away")

    channels = [(Keyspace("n", partition), f"c{partition}") for partition in (0, 1)]
    with pytest.raises(ConnectionError):
        await follow(client, channels, subscribed=subscribed, received=lambda keyspace, text: None)
    assert asyncio.all_tasks() == before

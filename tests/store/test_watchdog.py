"""A client that gets nothing but failures makes all of its connections anew, whatever it is that holds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ConnectionError, MaxConnectionsError

from gateway.store.client import Client
from tests.servers import Server
from tests.waiting import until

STUCK_S = 0.2


@pytest.fixture
async def client(valkey_server: Server) -> AsyncIterator[Client]:
    """Gives up on its connections soon."""
    client = Client.to(valkey_server.url)
    client.stuck_s = STUCK_S
    yield client
    await client.aclose()


async def test_client_whose_connections_were_never_given_back_makes_new_ones(client: Client) -> None:
    pool = client.connection_pool
    pool.max_connections = 2
    kept = [await pool.get_connection() for _ in range(2)]
    with pytest.raises(MaxConnectionsError):
        await client.ping()

    async def answers() -> bool:
        try:
            return bool(await client.ping())
        except MaxConnectionsError:
            return False

    await until(answers)
    assert client.connection_pool is not pool

    async def closed() -> bool:
        return not any(connection.is_connected for connection in kept)

    await until(closed)


async def test_client_that_gets_on_in_between_keeps_its_connections(client: Client) -> None:
    pool, loop = client.connection_pool, asyncio.get_running_loop()
    until_s = loop.time() + 3 * STUCK_S
    while loop.time() < until_s:
        client.failed(ConnectionError("lost"))
        assert await client.ping()
    assert client.connection_pool is pool

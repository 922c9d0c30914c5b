"""Channels on several servers: when one is away, nobody goes on reading from the others' connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from redis.crc import key_slot
from redis.exceptions import ConnectionError, ResponseError

from gateway.keys import Keyspace
from gateway.store.channels import follow
from gateway.store.client import Client
from tests.servers import Server, free_ports
from tests.waiting import until


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


async def test_every_connection_is_closed_when_it_is_cancelled_again_while_it_closes_the_first(
    valkey_server: Server,
) -> None:
    client = Apart.to(valkey_server.url)
    client.apart = (Client.to(valkey_server.url), Client.to(valkey_server.url))
    ready = asyncio.Event()

    async def subscribed() -> None:
        ready.set()

    channels = [(keyspace, f"{keyspace.prefix}c") for keyspace in (Keyspace("n", 0), Keyspace("n", 1))]
    task = asyncio.create_task(follow(client, channels, subscribed=subscribed, received=lambda keyspace, text: None))
    async with asyncio.timeout(10):
        await ready.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await until(lambda: _nobody_listens(client))
    for each in (*client.apart, client):
        await each.aclose()


async def _nobody_listens(client: Client) -> bool:
    return not await client.execute_command("CLIENT", "LIST", "TYPE", "pubsub")


class Listening:
    """A `follow` of one channel under way: what was said there, and how it ends."""

    def __init__(self, client: Client, *, idle_s: float) -> None:
        self.subscribed = asyncio.Event()
        self.heard: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        keyspace = Keyspace("n", 0)
        self.task = asyncio.create_task(
            follow(
                client,
                [(keyspace, f"{keyspace.prefix}c")],
                subscribed=self._subscribed,
                received=lambda said, message: self.heard.put_nowait((said.partition, message)),
                idle_s=idle_s,
            )
        )

    async def _subscribed(self) -> None:
        self.subscribed.set()


@contextlib.asynccontextmanager
async def listening(client: Client, *, idle_s: float = 60.0) -> AsyncIterator[Listening]:
    it = Listening(client, idle_s=idle_s)
    try:
        async with asyncio.timeout(10):
            await asyncio.wait(
                {it.task, waiting := asyncio.ensure_future(it.subscribed.wait())}, return_when="FIRST_COMPLETED"
            )
            waiting.cancel()
            yield it
    finally:
        it.task.cancel()
        await asyncio.wait([it.task])


CHANNEL = Keyspace("n", 0).prefix + "c"


@pytest.mark.parametrize("options", ["", "&protocol=2", "&protocol=3"])
async def test_messages_come_in_order_whatever_the_protocol(valkey_server: Server, options: str) -> None:
    client = Client.to(valkey_server.url + options)
    async with listening(client) as it:
        await client.send([("SPUBLISH", CHANNEL, f"{number} ä") for number in range(300)])
        assert [await it.heard.get() for _ in range(300)] == [(0, f"{number} ä".encode()) for number in range(300)]
    await client.aclose()


async def test_a_silent_server_is_noticed_and_one_that_answers_is_kept() -> None:
    with Server() as server:
        client = Client.to(f"{server.url}&protocol=2")  # whose answer to PING looks like a message
        async with listening(client, idle_s=0.05) as it:
            await until(lambda: _pinged(client, 2))
            assert not it.task.done()
            server.suspend()
            with pytest.raises(ConnectionError, match="silent"):
                await it.task
            server.resume()
        await client.aclose()


async def _pinged(client: Client, times: int) -> bool:
    statistics = await client.info("commandstats")
    return int(statistics.get("cmdstat_ping", {"calls": 0})["calls"]) >= times


async def test_it_ends_and_leaves_no_connection_when_the_server_closes_it(valkey_server: Server) -> None:
    client = Client.to(valkey_server.url)
    async with listening(client) as it:
        await client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        with pytest.raises(ConnectionError, match=r"closed|lost"):
            await it.task
    async with listening(client):
        pass
    await until(lambda: _nobody_listens(client))
    await client.aclose()


@pytest.mark.parametrize("nonsense", [b"*0\r\n", b"*1\r\n+x\r\n", b"*2\r\n$8\r\nsmessage\r\n+c\r\n", b"nonsense\r\n"])
async def test_it_ends_when_the_server_says_what_is_no_message(
    valkey_server: Server, caplog: pytest.LogCaptureFixture, nonsense: bytes
) -> None:
    tasks: list[asyncio.Task[None]] = []
    clients: list[asyncio.StreamWriter] = []

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(valkey_server.socket)
        clients.append(writer)
        tasks.extend(asyncio.create_task(_pass_on(*way)) for way in ((reader, server_writer), (server_reader, writer)))

    proxy = await asyncio.start_server(between, "127.0.0.1", 0)
    client = Client.to(f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/0")
    async with listening(client) as it:
        for each in clients:
            each.write(nonsense)
        with pytest.raises(ConnectionError, match="the server sent what is no"):
            await it.task
    assert not [each for each in caplog.records if each.name == "asyncio"]
    await client.aclose()
    proxy.close()
    await asyncio.gather(*tasks)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def test_what_refuses_a_subscription_is_raised(valkey_server: Server) -> None:
    client = Client.to(valkey_server.url)
    await client.execute_command("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "+@all", "resetchannels")
    deaf = Client.to(valkey_server.url)
    deaf.connection_pool.connection_kwargs |= {"username": "deaf", "password": "x"}
    async with listening(deaf) as it:
        with pytest.raises(ResponseError):
            await it.task
    await client.execute_command("ACL", "DELUSER", "deaf")
    await deaf.aclose()
    await client.aclose()


async def test_it_ends_when_its_slot_goes_to_another_server() -> None:
    with Server(cluster=True) as server:
        client = Client.to(f"redis://127.0.0.1:{server.port}")
        async with listening(client) as it:
            await client.execute_command("CLUSTER", "DELSLOTS", key_slot(CHANNEL.encode()))
            with pytest.raises(ConnectionError, match="another server"):
                await it.task
        await client.aclose()

"""The connection that a process's calls share: whose a reply is, and what becomes of calls when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from gateway.store.client import Client
from gateway.store.link import LONG_BYTES
from tests.servers import Server
from tests.waiting import until


@pytest.fixture
async def client(valkey_server: Server) -> AsyncIterator[Client]:
    client = Client.to(valkey_server.url)
    yield client
    await client.aclose()


async def connection_id(client: Client) -> int:
    number: int = await client.call("CLIENT", "ID")
    return number


async def test_replies_go_to_whom_they_belong_when_many_calls_share_the_connection(client: Client) -> None:
    async def echo(number: int) -> list[bytes]:
        return await client.send([("ECHO", f"{number}a"), ("ECHO", b"%db" % number)])

    first = await connection_id(client)
    answers = await asyncio.gather(*(echo(number) for number in range(200)))
    assert answers == [[b"%da" % number, b"%db" % number] for number in range(200)]
    assert await connection_id(client) == first


async def test_long_arguments_go_out_as_they_are_beside_short_ones(client: Client) -> None:
    long = [b"\r\n%d" % number * size for number, size in ((1, LONG_BYTES), (2, 1), (3, 300_000))]
    script = "return {KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]}"
    command = ("EVAL", script, 1, "\u00e9", long[0], 7, long[1], (long[2][:5], long[2][5:]), long[0])
    expected = ["\u00e9".encode(), long[0], b"7", long[1], long[2], long[0]]
    assert await client.send([("ECHO", "x"), command, ("ECHO", long[2]), command]) == [
        b"x",
        expected,
        long[2],
        expected,
    ]


async def test_an_error_is_its_callers_alone(client: Client) -> None:
    calls = [client.call("ECHO", "x"), client.call("NO-SUCH-COMMAND"), client.call("ECHO", "y")]
    answers: list[object] = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers.pop(1), ResponseError)
    assert answers == [b"x", b"y"]
    mixed = await client.send([("NO-SUCH-COMMAND",), ("ECHO", "z")])
    assert isinstance(mixed[0], ResponseError)
    assert mixed[1] == b"z"


async def test_a_caller_that_is_cancelled_takes_no_other_ones_reply(client: Client) -> None:
    first = await connection_id(client)
    calls = [asyncio.ensure_future(client.call("ECHO", str(number))) for number in range(10)]
    await asyncio.sleep(0)
    calls[4].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers.pop(4), asyncio.CancelledError)
    assert answers == [b"%d" % number for number in range(10) if number != 4]
    assert await connection_id(client) == first


async def test_calls_fail_when_the_server_closes_the_connection_and_later_ones_get_a_new_one() -> None:
    with Server() as server, server.client() as admin:
        client = Client.to(server.url)
        first = await connection_id(client)
        server.suspend()
        calls = [asyncio.ensure_future(client.call("ECHO", "x")) for _ in range(3)]
        await asyncio.sleep(0)
        server.kill()
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(answer, ConnectionError)
        server.start()
        assert await client.call("ECHO", "y") == b"y"
        second = await connection_id(client)
        admin.execute_command("CLIENT", "KILL", "ID", second)

        async def connected_anew() -> bool:
            try:
                return await connection_id(client) not in (first, second)
            except ConnectionError:  # sent before this end had heard of it
                return False

        await until(connected_anew)
        await client.aclose()


async def test_calls_fail_in_time_when_the_server_is_silent_and_go_through_when_it_is_back() -> None:
    with Server() as server:
        client = Client.to(server.url, reply_timeout_s=0.3)
        assert await client.call("ECHO", "x") == b"x"
        server.suspend()
        async with asyncio.timeout(10):
            for answer in await asyncio.gather(*(client.call("ECHO", "y") for _ in range(3)), return_exceptions=True):
                assert isinstance(answer, TimeoutError)
        server.resume()
        assert await client.call("ECHO", "z") == b"z", "and not the late reply to an earlier call"
        await client.aclose()


async def test_one_dial_speaks_for_all_who_wait_when_the_server_takes_connections_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        silent.setblocking(False)
        client = Client.to(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", reply_timeout_s=0.2)
        calls = [client.call("ECHO", "x") for _ in range(20)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer) for answer in answers} == {TimeoutError}
        assert _taken(silent) == 2, "who asked while the first dial was under way waits for one of its own"
        with pytest.raises(TimeoutError):
            await client.call("ECHO", "y")
        assert _taken(silent) == 1, "what is asked anew is tried anew, however soon"
        await client.aclose()


def _taken(listener: socket.socket) -> int:
    """How many connections have come since."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


async def test_a_long_reply_may_take_longer_than_the_server_may_be_silent() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if b"ECHO" not in data:
                writer.write(b"+OK\r\n" * max(1, data.count(b"*")))
                continue
            writer.write(b"$8\r\n")
            for _ in range(8):
                await asyncio.sleep(0.25)
                writer.write(b"x")
                await writer.drain()
            writer.write(b"\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = Client.to(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0?protocol=2", reply_timeout_s=1.5)
    try:
        assert await client.call("ECHO", "x") == b"x" * 8
    finally:
        await client.aclose()
        server.close()


async def test_replies_that_are_due_still_come_when_the_client_has_doubts(client: Client) -> None:
    first = await connection_id(client)
    call = asyncio.ensure_future(client.call("CLIENT", "ID"))
    await asyncio.sleep(0)
    client.doubt()
    second = await connection_id(client)
    assert (await call, second != first) == (first, True)
    await until(lambda: _gone(client, first))


async def test_a_call_ends_with_its_client_when_another_connection_has_followed_its_own() -> None:
    with Server() as server:
        client = Client.to(server.url)
        await client.call("ECHO", "x")
        server.suspend()
        call = asyncio.ensure_future(client.call("ECHO", "y"))
        await asyncio.sleep(0)
        client.doubt()
        next_call = asyncio.ensure_future(client.call("ECHO", "z"))
        await asyncio.sleep(0)
        next_call.cancel()
        await client.aclose()
        assert isinstance(call.exception(), ConnectionError)
        await asyncio.wait([next_call])


async def test_a_client_that_is_closed_while_it_connects_keeps_no_connection_and_sends_nothing() -> None:
    with Server() as server, server.client() as admin:
        client = Client.to(server.url)
        server.suspend()
        calls = [asyncio.ensure_future(client.call("SET", f"late:{at}", "x")) for at in range(3)]
        await asyncio.sleep(0.05)  # whether they connect by then or not, the end is the same
        await client.aclose()
        server.resume()
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(answer, ConnectionError)
        assert admin.keys("late:*") == []

        async def alone() -> bool:
            return len(admin.client_list()) == 1

        await until(alone)


class _LostAtOnce:
    """Mixed into a connection class: a connection that is made, and that the server has closed before it is used."""

    admin: redis.Redis

    async def connect(self) -> None:
        library: Any = super()
        await library.connect()
        own: Any = self
        self.admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        async with asyncio.timeout(10):
            while not own._reader.at_eof():  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0)


async def test_a_connection_that_is_lost_before_its_first_use_fails_its_call_at_once() -> None:
    with Server(tcp=True) as server, server.client() as admin:
        lost = type("Lost", (_LostAtOnce,), {"admin": admin})
        client = Client.to(server.url, reply_timeout_s=30, connection=lost)
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionError):
                await client.call("ECHO", "x")
            await client.aclose()


async def _gone(client: Client, number: int) -> bool:
    clients: bytes = await client.call("CLIENT", "LIST")
    return b"id=%d " % number not in clients

"""Clients that do not read what they asked for."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from gateway.api import outlet
from tests.api.running import Running, running, settings_for
from tests.servers import Server
from tests.waiting import until

PAYLOAD = b"x" * (1024 * 1024 - 1000)
EVENTS = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
WAIT_S = 60.0


async def large_job(api: Running) -> bytes:
    """A request whose answer is a mebibyte."""
    answer = await api.client.post("/jobs", content=b'{"target":"echo","payload":"%b"}' % PAYLOAD)
    return b"GET /jobs/%b HTTP/1.1\r\nHost: localhost\r\n" % answer.json()["job_id"].encode()


@contextlib.asynccontextmanager
async def narrow(api: Running) -> AsyncIterator[socket.socket]:
    """A connection whose kernel takes little ahead of its reader."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", api.port))
        yield client


def open_sockets(api: Running) -> int:
    """Connections that the gateway holds open."""
    table = Path("/proc/net/tcp").read_text()
    return len(re.findall(rf"^ *\d+: [0-9A-F]+:{api.port:04X} [0-9A-F]+:[0-9A-F]+ 01 ", table, re.MULTILINE))


async def connections(api: Running, count: int) -> None:
    """Returns once the gateway holds so many open."""

    async def reached() -> bool:
        return open_sockets(api) == count

    await until(reached)


async def read_all(client: socket.socket) -> bytes:
    """What comes until the connection is reset or closed."""
    loop, read = asyncio.get_running_loop(), bytearray()
    with contextlib.suppress(ConnectionError):
        while chunk := await loop.sock_recv(client, 65536):
            read += chunk
    return bytes(read)


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"])
async def test_client_that_takes_nothing_of_its_answers_is_dropped(
    api: Running, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    monkeypatch.setattr(outlet, "UNREAD_S", 0.2)
    request = await large_job(api)
    before = open_sockets(api)
    async with narrow(api) as client:
        await connections(api, before + 1)
        await asyncio.get_running_loop().sock_sendall(client, (request + more + b"\r\n") * 20)
        await connections(api, before)
        async with asyncio.timeout(WAIT_S):
            assert len(await read_all(client)) < 20 * len(PAYLOAD)


async def test_client_that_reads_slowly_gets_all_of_its_answer(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "UNREAD_S", 1.0)
    monkeypatch.setattr(outlet, "UNREAD_BYTES", 1)
    request = await large_job(api) + b"\r\n"
    async with narrow(api) as client:
        loop, read = asyncio.get_running_loop(), bytearray()
        began = loop.time()
        await loop.sock_sendall(client, request * 4)
        async with asyncio.timeout(WAIT_S):
            while read.count(b"HTTP/1.1 200") < 4 or not read.endswith(b"}"):
                chunk = await loop.sock_recv(client, 32768)
                assert chunk
                read += chunk
                if loop.time() < began + 2.5 * outlet.UNREAD_S:
                    await asyncio.sleep(0.02)


async def test_stream_on_which_nothing_happens_is_left_alone(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "UNREAD_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(EVENTS)
    async with asyncio.timeout(WAIT_S):
        await reader.readuntil(b"as they happen\n\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)
        await api.client.post("/jobs", content=b'{"target":"echo"}')
        await reader.readuntil(b'"type":"accepted"')
    writer.close()


def test_client_that_takes_nothing_is_dropped_by_a_server_on_uvloop(
    valkey_server: Server, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "UNREAD_S", 0.2)

    async def drop() -> None:
        async with running(settings_for(tmp_path, valkey_server.url, namespace)) as api:
            request, before = await large_job(api), open_sockets(api)
            async with narrow(api) as client:
                await connections(api, before + 1)
                await asyncio.get_running_loop().sock_sendall(client, (request + b"\r\n") * 20)
                await connections(api, before)

    uvloop.run(drop())

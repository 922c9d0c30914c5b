"""Clients that close their way of the connection behind their requests, and wait for the answers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import uvloop

from tests.api.running import Running, running, settings_for
from tests.api.test_closing import EVENTS, GARBAGE, LATER, LIVEZ, SUBMIT
from tests.api.test_limits import HEAD, WAIT_S, Connection
from tests.servers import Server
from tests.waiting import until

HELD = HEAD + b"Prefer: wait=60\r\nContent-Length: %d\r\n\r\n" % len(LATER) + LATER
HALF = SUBMIT[:-1]
LARGE = b'{"target":"echo","payload":"%b"}' % (b"x" * 500_000)
LARGER = HEAD + b"Content-Length: %d\r\n\r\n" % len(LARGE) + LARGE


async def statuses(api: Running, requests: bytes) -> list[int]:
    """What is answered to a client that sends no more than the requests."""
    connection = await Connection.open(api)
    connection.writer.write(requests)
    connection.writer.write_eof()
    async with asyncio.timeout(WAIT_S):
        answers = await connection.reader.read()
    connection.writer.close()
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


CASES = {
    "one": (SUBMIT, [202]),
    "large": (LARGER, [202]),
    "several": (SUBMIT + LIVEZ + SUBMIT + LARGER + LIVEZ, [202, 200, 202, 202, 200]),
    "held": (HELD, [202]),
    "held_behind": (SUBMIT + HELD + LIVEZ, [202, 202, 200]),
    "not_whole": (HALF, []),
    "not_whole_behind": (SUBMIT + HALF, [202]),
    "not_whole_behind_many": (SUBMIT * 20 + HALF, [202] * 20),
    "fault_behind_many": (SUBMIT * 5 + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", [202] * 5 + [400]),
    "no_whole_head_behind": (SUBMIT + LIVEZ[:-2], [202]),
    "garbage_behind": (SUBMIT + GARBAGE, [202, 400]),
    "nothing": (b"", []),
    "stream": (EVENTS, [200]),
    "stream_behind": (SUBMIT + EVENTS, [202, 200]),
}


@pytest.mark.parametrize("case", CASES)
async def test_client_that_closes_its_way_gets_the_answers_that_are_due(api: Running, case: str) -> None:
    requests, expected = CASES[case]
    assert await statuses(api, requests) == expected
    assert await api.queued() == expected.count(202)


def test_client_that_closes_its_way_gets_the_answers_that_are_due_on_uvloop(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with running(settings_for(tmp_path, valkey_server.url, namespace)) as api:
            for requests, expected in CASES.values():
                assert await statuses(api, requests) == expected

    uvloop.run(check())


async def test_hold_ends_at_once_when_its_client_closes_its_way(api: Running) -> None:
    connection = await Connection.open(api)
    await connection.send(HELD)

    async def queued() -> bool:
        return await api.queued() == 1

    await until(queued)
    began_s = asyncio.get_running_loop().time()
    connection.writer.write_eof()
    assert (await connection.answer())[0] == 202
    assert asyncio.get_running_loop().time() - began_s < 30
    assert await connection.ended()

"""Every answer and fault of an HTTP target in a running dispatcher: how the job ends, after how many attempts, when."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import orjson
import pytest

from gateway.jobs import Record
from tests.dispatch.running import Client, Dispatching, dispatching, settings_for
from tests.egress.receiver import Peer, Receiver, Script, always, answer, replies, stall
from tests.egress.test_connector import own_certificate
from tests.servers import Server

ATTEMPTS = 2
BASE_MS = 20
DELAYS_MS = (BASE_MS, BASE_MS)
TARGET = """
[targets.{name}]
executor = "http"
url = "{url}"
timeout = "{timeout}"
retry = {{ policy = "fixed", base = "20ms", max_attempts = 2 }}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What a target does, and what becomes of its job: status, reason, attempts, the error's type, delay bounds."""

    name: str
    script: Script
    error: str = ""
    reason: str = ""
    attempts: int = 1
    delays_ms: tuple[int, int] = DELAYS_MS
    timeout: str = "5s"
    tls: ssl.SSLContext | None = None


def ends(name: str, script: Script, error: str, **more: Any) -> Row:
    return Row(name, script, error, "exhausted", ATTEMPTS, **more)


def fatal(name: str, script: Script, error: str = "status") -> Row:
    return Row(name, script, error, "fatal")


def endless(head: bytes, chunk: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(head)
        while True:
            await peer.write(chunk)

    return script


def dribble(head: bytes, byte: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(head)
        while True:
            await peer.write(byte)
            await asyncio.sleep(0.05)

    return script


async def reset(peer: Peer) -> None:
    await peer.read()
    peer.reset()


async def gigabyte(peer: Peer) -> None:
    await peer.read()
    await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(1024):
        await peer.write(bytes(1 << 20))


async def one_answer(peer: Peer) -> None:
    """Answers once, says nothing of closing, and closes on the next request."""
    await peer.read()
    await peer.write(answer("200 OK", b"1"))
    await peer.read()


async def one_answer_and_reset(peer: Peer) -> None:
    await one_answer(peer)
    peer.reset()


def broken_after(data: bytes, end: str) -> Script:
    """Writes the beginning of an answer, and then closes, resets or stalls."""

    async def script(peer: Peer) -> None:
        await peer.read()
        await peer.write(data)
        if end == "reset":
            peer.reset()
        elif end == "stall":
            await peer.read()

    return script


RETRIED = (408, 425, 429, 500, 502, 503, 504, 599)
FATAL = (300, 301, 302, 307, 308, 400, 401, 402, 403, 404, 405, 409, 413, 415, 422, 451)
SUCCEEDING = (200, 201, 202, 204, 206, 226)
ASKS_MS = (1000, 1100)
OK = b"HTTP/1.1 200 OK\r\n"


def rows() -> list[Row]:
    inside = "Location: http://127.0.0.1:1/"
    found = [Row(f"ok-{status}", always(answer(f"{status} X"))) for status in SUCCEEDING]
    found += [ends(f"retried-{status}", always(answer(f"{status} X")), "status") for status in RETRIED]
    found += [fatal(f"fatal-{status}", always(answer(f"{status} X", b"", inside))) for status in FATAL]
    found += [
        fatal("no-retry", always(answer("503 X", b"", "gateway-no-retry: true"))),
        ends("after-seconds", always(answer("503 X", b"", "Retry-After: 1")), "status", delays_ms=ASKS_MS),
        ends("after-zero", always(answer("503 X", b"", "Retry-After: 0")), "status"),
        ends("after-nonsense", always(answer("503 X", b"", "Retry-After: soon")), "status"),
        ends("reset-seconds", always(answer("429 X", b"", "RateLimit-Reset: 1")), "status", delays_ms=ASKS_MS),
        ends("limit-item", always(answer("429 X", b"", 'RateLimit: "a";r=0;t=1')), "status", delays_ms=ASKS_MS),
        ends("reset-of-500", always(answer("500 X", b"", "RateLimit-Reset: 1")), "status"),
        ends("reset", reset, "reset"),
        ends("close", replies(b""), "reset"),
        ends("stall", stall, "timeout", timeout="5s"),
        ends("head-dribble", dribble(b"HTTP/1.1 200 OK\r\nX-A: ", b"a"), "timeout", timeout="5s"),
        ends("body-dribble", dribble(OK + b"Content-Length: 9999\r\n\r\n", b"a"), "timeout", timeout="5s"),
        ends("short-body", replies(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), "protocol"),
        ends("two-lengths", replies(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy"), "protocol"),
        ends("status-000", always(answer("000 X", b"{}")), "protocol"),
        ends("status-099", always(answer("099 X")), "protocol"),
        ends("status-1000", always(answer("1000 X")), "protocol"),
        ends("no-http", replies(b"SSH-2.0-OpenSSH_9.9\r\n"), "protocol"),
        ends("bad-chunk", replies(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "protocol"),
        ends("large-header", endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 65536), "too_large"),
        ends("many-headers", endless(b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n" * 4096), "too_large"),
        ends("interim-flood", endless(b"", b"HTTP/1.1 103 X\r\n\r\n" * 1000), "too_large"),
        Row("gigabyte", gigabyte),
        Row("endless-body", endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n" * 1000)),
        Row("gzip-bomb", always(answer("200 OK", gzip.compress(bytes(1 << 20)), "Content-Encoding: gzip"))),
    ]  # fmt: skip
    return found


ROWS = rows()


@contextlib.asynccontextmanager
async def calling(
    tmp_path: Path, redis_url: str, namespace: str, targets: dict[str, Row]
) -> AsyncIterator[tuple[Dispatching, dict[str, Receiver]]]:
    """A dispatcher with a target for each row, each at a receiver of its own."""
    async with contextlib.AsyncExitStack() as stack:
        receivers = {
            name: await stack.enter_async_context(Receiver(row.script, tls=row.tls)) for name, row in targets.items()
        }
        config = '[egress]\nallow = ["127.0.0.1"]\n'
        for name, row in targets.items():
            config += TARGET.format(name=name, url=receivers[name].url, timeout=row.timeout)
        settings = settings_for(tmp_path, redis_url, namespace, more=config)
        yield await stack.enter_async_context(dispatching(settings)), receivers


async def outcome(client: Client, row: Row, job_id: str = "") -> Record:
    """The record of a job of the row's target, once it is over; as the row says."""
    job_id = job_id or await client.submit(row.name, {"n": 1}, max_attempts=ATTEMPTS)
    record = await client.ended(job_id, timeout_s=60)
    found = await client.store.find(job_id)
    delays = [entry.facts["delay_ms"] for entry in found.timeline if entry.type == "retrying"]
    shown = (row.name, record.status.value, record.reason, record.attempts)
    assert shown == (row.name, "dead" if row.error else "succeeded", row.reason, row.attempts)
    error = orjson.loads(record.error) if record.error else {}
    assert (row.name, error.get("type", "")) == (row.name, row.error)
    assert len(delays) == row.attempts - 1
    assert all(row.delays_ms[0] <= delay <= row.delays_ms[1] for delay in delays), (row.name, delays)
    return record


async def test_every_answer_and_fault_ends_as_the_table_says(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    table = {row.name: row for row in ROWS}
    async with calling(tmp_path, valkey_server.url, namespace, table) as (running, receivers):
        client = running.client
        ids = {name: await client.submit(name, {"n": 1}, max_attempts=ATTEMPTS) for name in table}
        by_name = {name: await outcome(client, table[name], job_id) for name, job_id in ids.items()}
        assert orjson.loads(by_name["gigabyte"].result)["truncated"] is True
        for row in ROWS:
            assert receivers[row.name].connections >= 1
            sent = [seen.values("gateway-attempt") for seen in receivers[row.name].requests]
            assert sent == [[str(number + 1)] for number in range(row.attempts)], row.name
        errors = {row.error for row in ROWS if row.error}
        for error in errors:
            failures = sum(row.attempts for row in ROWS if row.error == error)
            assert running.sample("gateway_attempt_errors_total", error=error) == failures


@pytest.mark.parametrize("script", [one_answer, one_answer_and_reset])
async def test_no_attempt_is_spent_on_connections_that_close_on_their_second_request(
    tmp_path: Path, valkey_server: Server, namespace: str, script: Script
) -> None:
    row = Row("closing", script)
    async with calling(tmp_path, valkey_server.url, namespace, {"closing": row}) as (running, receivers):
        client = running.client
        ids = [await client.submit("closing", {"n": n}, max_attempts=3) for n in range(250)]
        for job_id in ids:
            await outcome(client, row, job_id)
    requests, connections = len(receivers["closing"].requests), receivers["closing"].connections
    assert requests > connections, "no kept connection was used"


async def test_answer_that_breaks_at_any_byte_is_a_named_failure_and_never_a_result(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    whole = answer("200 OK", b'{"ok":1}', "Content-Type: application/json")
    named = {"close": ("reset", "protocol"), "reset": ("reset", "protocol"), "stall": ("timeout",)}
    table = {
        f"{end}-{at}": ends("", broken_after(whole[:at], end), "", timeout="300ms" if end == "stall" else "5s")
        for end in named
        for at in range(len(whole))
    }  # fmt: skip
    async with calling(tmp_path, valkey_server.url, namespace, table) as (running, receivers):
        ids = {name: await running.client.submit(name, 1, max_attempts=1) for name in table}
        for name, job_id in ids.items():
            record = await running.client.ended(job_id, timeout_s=60)
            assert record.reason == "exhausted", name
            assert orjson.loads(record.error)["type"] in named[name.partition("-")[0]], (name, record.error)
        # on a slow machine a time limit this short may be over before the request has left
        assert all(len(each.requests) == 1 for name, each in receivers.items() if not name.startswith("stall-"))


async def test_json_answer_is_the_result_byte_for_byte(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    text = b'{"n": 123456789012345678901234567890,\n "f": 1.0, "l": []}'
    row = Row("json", always(answer("200 OK", text + b"\n", "Content-Type: application/json")))
    async with calling(tmp_path, valkey_server.url, namespace, {"json": row}) as (running, _):
        assert (await outcome(running.client, row)).result == text


async def test_what_gets_no_connection_ends_under_its_name(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    server, _ = own_certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    urls = {
        "connect": f"http://127.0.0.1:{port}/",
        "dns": "http://no-such-name.invalid/",
        "denied": "http://127.0.0.2/",
    }
    async with Receiver(always(answer()), tls=server) as untrusted:
        urls["tls"] = untrusted.url
        config = '[egress]\nallow = ["127.0.0.1"]\n'
        for name, url in urls.items():
            config += TARGET.format(name=name, url=url, timeout="10s")
        async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=config)) as running:
            for name in ("connect", "dns", "tls"):
                await outcome(running.client, ends(name, stall, name))
            denied = await outcome(running.client, fatal("denied", stall, "egress_denied"))
            assert b'add \\"127.0.0.2/32\\" to [egress] allow' in denied.error
        assert untrusted.requests == []


async def test_kept_connection_that_closed_spends_no_attempt(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    async def closes_second(peer: Peer) -> None:
        await peer.read()
        await peer.write(answer())
        if await peer.read() is not None and peer.number == 1:
            peer.reset()

    table = {"racing": Row("racing", closes_second)}
    async with calling(tmp_path, valkey_server.url, namespace, table) as (running, receivers):
        for _ in range(2):
            await outcome(running.client, table["racing"])
        sent = [seen.values("gateway-attempt") for seen in receivers["racing"].requests]
        assert (receivers["racing"].connections, sent) == (2, [["1"]] * 3)


@pytest.mark.parametrize("form", ["date", "epoch", "cap"])
async def test_pause_that_is_asked_for_has_a_cap(
    tmp_path: Path, valkey_server: Server, namespace: str, form: str
) -> None:
    header = {
        "date": f"Retry-After: {formatdate(time() + 300, usegmt=True)}",
        "epoch": f"X-RateLimit-Reset: {int(time()) + 300}",
        "cap": "Retry-After: 999999",
    }[form]
    table = {"paced": Row("paced", always(answer("429 X", b"", header)))}
    async with calling(tmp_path, valkey_server.url, namespace, table) as (running, _):
        job_id = await running.client.submit("paced", 1, max_attempts=ATTEMPTS)
        await running.client.reached(job_id, "retrying")
        (delay,) = [
            e.facts["delay_ms"] for e in (await running.client.store.find(job_id)).timeline if e.type == "retrying"
        ]
        assert delay == 3_600_000 if form == "cap" else 240_000 < delay <= 300_000

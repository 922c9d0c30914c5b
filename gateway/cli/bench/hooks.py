"""Deliveries: how many a gateway process takes in a second, beside an endpoint of the same server that only reads."""

from __future__ import annotations

import asyncio
import hmac
import multiprocessing
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import uvloop
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.api.app import create_app
from gateway.api.server import Server, open_store, uvicorn_config
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.rig import bench_settings
from gateway.registry import Registry
from gateway.secret import Secret
from gateway.settings import GatewaySettings, RouteSettings, Settings, TriggerSettings
from gateway.store.connection import connect

CONNECTIONS = 32
BODY = msgspec.json.encode(
    {"ref": "refs/heads/main", "commits": [{"id": f"{at:040x}", "message": "a line\n" * 8} for at in range(64)]}
)
"""What GitHub sends for a push, in its usual size of 7 KB."""

_SECRET = "a secret of the measurement"  # noqa: S105 - nobody else has it
_START_S = 30.0
_STEP_S = 300.0


async def measure(url: str, *, deliveries: int, repetitions: int) -> Report:
    """Interleaved: the bare endpoint, then `/hooks/github`, `repetitions` times, on one server process."""
    bare: list[float] = []
    taken: list[float] = []
    signature = hmac.digest(_SECRET.encode(), BODY, "sha256").hex()
    signed = f"x-hub-signature-256: sha256={signature}\r\nx-github-event: push\r\n"

    def delivery() -> bytes:
        return _request("/hooks/github", f"{signed}x-github-delivery: {secrets.token_hex(16)}\r\n")

    async with _served(url) as port:
        for make in (lambda: _request("/bare", signed), delivery):
            await _send(port, make, max(CONNECTIONS, deliveries // 10))
        for _ in range(repetitions):
            bare.append(deliveries / await _send(port, lambda: _request("/bare", signed), deliveries))
            taken.append(deliveries / await _send(port, delivery, deliveries))
    return Report(
        f"{deliveries:,} signed deliveries of {len(BODY):,} B over {CONNECTIONS} connections, one gateway process",
        [
            Figure("POST /hooks/github", "deliveries/s", tuple(taken), tuple(bare)),
            Figure("bare endpoint that reads the body", "requests/s", tuple(bare)),
        ],
    )


def _request(path: str, headers: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(BODY)}\r\n{headers}\r\n".encode() + BODY


class _Sender(asyncio.Protocol):
    """One connection that sends the next request as soon as an answer is whole."""

    def __init__(self, make: Callable[[], bytes], take: Callable[[], bool], done: asyncio.Future[None]) -> None:
        self._make = make
        self._take = take
        self._done = done
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._next()

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, sign, body = self._data.partition(b"\r\n\r\n")
        if not sign:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 202"):
            self._end(RuntimeError(f"not taken in: {self._data[:500]!r}"))
            return
        self._data = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionError("the server closed a connection"))

    def _next(self) -> None:
        assert self._transport is not None
        if self._take():
            self._transport.write(self._make())
        else:
            self._end(None)
            self._transport.close()

    def _end(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error) if error else self._done.set_result(None)


async def _send(port: int, make: Callable[[], bytes], count: int) -> float:
    """Seconds until as many requests are answered."""
    loop = asyncio.get_running_loop()
    left = count

    def take() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    began_s = loop.time()
    done = [loop.create_future() for _ in range(CONNECTIONS)]
    async with asyncio.timeout(_STEP_S):
        for each in done:
            await loop.create_connection(lambda each=each: _Sender(make, take, each), "127.0.0.1", port)  # type: ignore[misc]
        await asyncio.gather(*done)
    return loop.time() - began_s


@asynccontextmanager
async def _served(url: str) -> AsyncIterator[int]:
    """A gateway process on a port of its own, in a namespace that is emptied afterwards."""
    namespace = f"b{secrets.token_hex(3)}"
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(url, namespace, listener), daemon=True)
    process.start()
    port: int = listener.getsockname()[1]
    listener.close()
    try:
        yield port
    finally:
        process.terminate()
        await asyncio.to_thread(process.join, _START_S)
        process.kill()
        await _empty(url, namespace)


async def _empty(url: str, namespace: str) -> None:
    client = connect(url)
    try:
        cursor = 0
        while True:
            cursor, keys = await client.scan(cursor, match=f"gw:{{{namespace}:*", count=10_000)
            if keys:
                await client.unlink(*keys)
            if cursor == 0:
                return
    finally:
        await client.aclose()


def _serve(url: str, namespace: str, listener: socket.socket) -> None:
    """The whole of the server process."""
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    settings = _settings(url, namespace)
    app = create_app(settings, open_store(settings), Registry.build(settings), close_store=True)
    app.router.routes.insert(0, Route("/bare", _Bare()))
    uvloop.run(Server(uvicorn_config(app)).serve([listener]))


def _settings(url: str, namespace: str) -> Settings:
    trigger = TriggerSettings(
        verifier="github", routes=(RouteSettings(target="noop"),), config={"secrets": [_SECRET]}, place="bench"
    )
    return msgspec.structs.replace(
        bench_settings(),
        redis_url=Secret(url),
        gateway=GatewaySettings(namespace=namespace),
        triggers={"github": trigger},
    )


class _Bare:
    """Reads the body, and answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-length", b"2"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

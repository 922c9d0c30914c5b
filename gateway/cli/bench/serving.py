"""Servers to measure: a gateway in a process of its own, and beside it bare endpoints on the same server."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.api.server import Server, serve_on, uvicorn_config
from gateway.cli.bench.rig import bench_settings, emptied, quiet
from gateway.collector import calm_collector
from gateway.registry import Registry
from gateway.secret import Secret
from gateway.settings import GatewaySettings, RouteSettings, Settings, TriggerSettings
from gateway.ties import die_with_parent

SECRET = "a secret of the measurement"  # noqa: S105 - nobody else has it
PARSE, READ, BELOW = "/parse", "/read", "/below"
"""The bare endpoints: one parses a JSON body and answers as for a job; one only reads it; the last reads it as an ASGI
application, without Starlette's request and response."""

_ACCEPTED = {"job_id": "019a0000-0000-7000-8000-000000000000", "status": "pending"}
_START_S = 30.0


@asynccontextmanager
async def serving(url: str, namespace: str | None = None) -> AsyncIterator[tuple[int, int]]:
    """The ports of the gateway, in a namespace that is emptied afterwards, and of the bare endpoints."""
    own = namespace or f"b{secrets.token_hex(3)}"
    async with _process(_serve_gateway, url, own) as gateway, _process(_serve_bare) as bare:
        yield gateway, bare
    if namespace is None:
        await emptied(url, own)


@asynccontextmanager
async def _process(work: Callable[..., None], *args: object) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_tied, args=(os.getpid(), work, listener, *args), daemon=True)
    process.start()
    port: int = listener.getsockname()[1]
    listener.close()
    try:
        yield port
    finally:
        process.terminate()
        await asyncio.to_thread(process.join, _START_S)
        process.kill()


def _tied(parent: int, work: Callable[..., None], *args: object) -> None:
    """Ends with its parent, even a killed one."""
    die_with_parent(parent)
    work(*args)


def _serve_gateway(listener: socket.socket, url: str, namespace: str) -> None:
    """The whole of the gateway's process."""
    quiet()
    settings = _settings(url, namespace)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    uvloop.run(serve_on(settings, Registry.build(settings), listener))


def _serve_bare(listener: socket.socket) -> None:
    """The whole of the other process."""
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    kinds = ((PARSE, _parse), (READ, _read))
    app = Starlette(routes=[*(Route(path, each, methods=["POST"]) for path, each in kinds), Route(BELOW, _Below())])
    calm_collector()
    uvloop.run(Server(uvicorn_config(app)).serve([listener]))


def _settings(url: str, namespace: str) -> Settings:
    trigger = TriggerSettings(
        verifier="github", routes=(RouteSettings(target="noop"),), config={"secrets": [SECRET]}, place="bench"
    )
    return msgspec.structs.replace(
        bench_settings(),
        redis_url=Secret(url),
        gateway=GatewaySettings(namespace=namespace),
        triggers={"github": trigger},
    )


async def _parse(request: Request) -> JSONResponse:
    await request.json()
    return JSONResponse(_ACCEPTED, status_code=202)


async def _read(request: Request) -> Response:
    await request.body()
    return Response(b"{}", status_code=202, media_type="application/json")


class _Below:
    """Reads the body, and answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-length", b"2"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

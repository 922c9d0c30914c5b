"""What a request costs, counted: Python's calls from the server's hands to Redis and back, held to `budget.toml`."""

from __future__ import annotations

import asyncio
import hmac
import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import orjson
import pytest
from starlette.types import ASGIApp, Message, Scope

from gateway.api import create_app
from gateway.api.front import Front
from gateway.api.scope import ANSWER, WHOLE
from gateway.api.server import open_store
from gateway.registry import Registry
from tests.api.running import settings_for
from tests.budget.counting import no_time_passes, python_calls
from tests.budget.test_budget import server, within
from tests.servers import Server

AT_ONCE = 50
JOB = {"target": "echo", "payload": {"order": 4711, "note": "x" * 160}}

__all__ = ["server"]


@pytest.fixture
async def app(server: Server, tmp_path: Path) -> AsyncIterator[Front]:
    settings = settings_for(tmp_path, server.url, "budget", GATEWAY_GATEWAY_LOG_LEVEL="error")
    store = open_store(settings)
    application = create_app(settings, store, Registry.build(settings), close_store=True)
    async with application.router.lifespan_context(application):
        assert isinstance(application, Front)
        yield application


async def post(app: Front, path: str, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """One request, as the server hands over what came whole and takes the answer."""
    answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def answer(status: int, content_type: bytes, body: bytes) -> bool:
        answered.set_result(status)
        return True

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-length", b"%d" % len(body)), *headers],
        WHOLE: True,
        ANSWER: answer,
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        raise AssertionError(f"sent the long way: {message}")

    def go_on(app: ASGIApp) -> None:
        raise AssertionError("it needs a task")

    if not app.take(scope, body, receive=receive, go_on=go_on):  # it is not known yet who may
        await app(scope, receive, send)
    assert await answered in (200, 202)


async def calls_of(app: Front, path: str, bodies: list[tuple[bytes, list[tuple[bytes, bytes]]]]) -> float:
    """Calls for each of a quarter of the requests at once: the least of three rounds. The round before them does not
    count: it makes what is made once, and does what was due by the clock."""
    size, found = len(bodies) // 4, []
    with no_time_passes():
        for at in range(0, len(bodies), size):
            with python_calls() as calls:
                await asyncio.gather(*(post(app, path, body, headers) for body, headers in bodies[at : at + size]))
            found.append(calls.count / size)
    return min(found[1:])


async def test_requests_cost_no_more_than_they_may(app: Front) -> None:
    json = [(b"content-type", b"application/json")]
    single = [(orjson.dumps(JOB), json)] * 4 * AT_ONCE
    within("http", "calls_per_job", await calls_of(app, "/jobs", single))
    batch = [(orjson.dumps([JOB] * 100), json)] * 16
    within("http", "calls_per_job_of_a_batch", await calls_of(app, "/jobs/batch", batch) / 100)


async def test_deliveries_cost_no_more_than_they_may(app: Front) -> None:
    body, numbers = orjson.dumps({"ref": "refs/heads/main"}), itertools.count()
    signature = b"sha256=" + hmac.digest(b"the-secret", body, "sha256").hex().encode()

    def headers() -> list[tuple[bytes, bytes]]:
        own = [(b"x-hub-signature-256", signature), (b"x-github-event", b"push")]
        return [*own, (b"x-github-delivery", b"g-%d" % next(numbers))]

    deliveries = [(body, headers()) for _ in range(4 * AT_ONCE)]
    within("http", "calls_per_delivery_with_two_jobs", await calls_of(app, "/hooks/github", deliveries))

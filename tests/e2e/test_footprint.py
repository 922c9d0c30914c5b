"""What a dispatcher of functions has loaded: nothing of what only call-outs, traces or the HTTP side need."""

from __future__ import annotations

import orjson
import pytest

from gateway.jobs import Submission
from gateway.settings import Settings
from gateway.store import Store
from tests.e2e.installation import Installation
from tests.servers import Server
from tests.waiting import until

HEAVY = (
    "aiohttp",
    "cryptography.hazmat.bindings._rust",
    "google.protobuf",
    "opentelemetry.sdk.trace",
    "pydantic",
    "requests",
)
"""Libraries of several MB each."""

OURS = ("gateway.api", "gateway.client", "gateway.cli.bench", "gateway.egress.client", "gateway.tracing.export")
"""What brings them."""

FUNCTION = """
import sys
from gateway import target

@target("declared")
def loaded(names):
    return [name for name in names if name in sys.modules]
"""
TARGET = """
[targets.loaded]
executor = "python"
callable = "own:loaded"
"""
CALLING = """
[targets.calls]
executor = "http"
url = "https://example.com/"
"""


async def loaded_by(installation: Installation, server: Server, *options: str, target: str = "loaded") -> list[str]:
    """What a dispatcher process has loaded of it once it has run a job."""
    process = installation.start("dispatch", *options, env={"GATEWAY_REDIS_URL": server.url})
    process.await_line("dispatcher started")
    store = await Store.open(server.url, namespace=Settings().gateway.namespace, lanes=Settings().lanes.order)
    try:
        job_id = store.new_id(1_800_000_000_000)
        await store.submit([Submission(job_id, target, orjson.dumps((*HEAVY, *OURS)))])

        async def is_over() -> bool:
            return (await store.find(job_id)).record.status == "succeeded"

        await until(is_over)
        result = (await store.find(job_id)).record.result
    finally:
        await store.aclose()
    assert process.stop() == 0
    found: list[str] = orjson.loads(result)
    return found


@pytest.mark.parametrize("calls_out", [False, True])
async def test_dispatcher_loads_what_calls_out_where_a_target_does(
    installation: Installation, redis_server: Server, calls_out: bool
) -> None:
    installation.add_module("own", FUNCTION)
    installation.configure(more=TARGET + (CALLING if calls_out else ""))
    expected = ["aiohttp", "gateway.egress.client"] if calls_out else []
    assert await loaded_by(installation, redis_server) == expected


async def test_dispatcher_keeps_nothing_of_what_read_its_options(
    installation: Installation, redis_server: Server
) -> None:
    installation.add_module("own", FUNCTION)
    assert await loaded_by(installation, redis_server, "--import", "own", target="declared") == []

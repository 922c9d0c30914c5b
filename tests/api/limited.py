"""A configuration whose targets have limits, so that their jobs wait in flows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import Settings, load
from tests.api.running import CONFIG, Running, running
from tests.servers import Server

PARTITIONS = 4

LIMITED = (
    CONFIG
    + """
[targets.single]
executor = "python"
callable = "json:dumps"
limit = { concurrency = 1 }

[targets.slow]
executor = "python"
callable = "json:dumps"
lane = "low"
limit = { rate = "1/h", burst = 1, per_key = { rate = "2/d", concurrency = 3 } }

[targets.daily]
executor = "python"
callable = "json:dumps"
limit = { quota = "1/d" }

[targets.account]
executor = "python"
callable = "json:dumps"
limit = { per_key = { concurrency = 1 } }

[targets.ledger]
executor = "python"
callable = "json:dumps"
ordered = true
"""
)


def limited_settings(directory: Path, redis_url: str, namespace: str, **environ: str) -> Settings:
    """The settings of LIMITED over one Redis; `environ` as the environment has it."""
    (directory / "gateway.toml").write_text(LIMITED)
    own = {"GATEWAY_REDIS_URL": redis_url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    return load(own | environ, directory)


@contextlib.asynccontextmanager
async def limited_gateway(request: pytest.FixtureRequest, namespace: str, directory: Path) -> AsyncIterator[Running]:
    """A gateway of LIMITED, its flows registered: on one partition, or on four where the parameter is `cluster`."""
    server: Server = request.getfixturevalue("valkey_cluster" if request.param == "cluster" else "valkey_server")
    url = f"redis://127.0.0.1:{server.port}/0" if server.cluster else server.url
    partitions = str(PARTITIONS if server.cluster else 1)
    settings = limited_settings(directory, url, namespace, GATEWAY_GATEWAY_PARTITIONS=partitions)
    async with running(settings) as gateway:
        assert (await gateway.client.get("/readyz")).status_code == 200
        yield gateway


async def submit(api: Running, target: str, **fields: Any) -> str:
    """The id of a job taken in."""
    answer = await api.client.post("/jobs", json={"target": target} | fields)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])

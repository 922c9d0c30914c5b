"""A gateway, and a client of each kind that speaks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.running import Running, running, settings_for
from tests.client.either import KINDS, Either, make
from tests.servers import Server


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(settings_for(tmp_path, valkey_server.url, namespace)) as gateway:
        yield gateway


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
async def client(api: Running, kind: str) -> AsyncIterator[Either]:
    client = make(kind, f"http://127.0.0.1:{api.port}")
    yield client
    await client.aclose()

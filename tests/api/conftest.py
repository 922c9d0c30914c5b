"""A running gateway over the shared Valkey, with a namespace of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.running import Running, running, settings_for
from tests.servers import Server


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    """On a loopback address, without any key."""
    async with running(settings_for(tmp_path, valkey_server.url, namespace)) as gateway:
        yield gateway

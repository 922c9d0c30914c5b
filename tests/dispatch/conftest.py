"""A dispatcher with a namespace of its own, and a stage to hold jobs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.egress.client import EgressClient
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import Settings
from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.dispatch.tasks import STAGES, Stage
from tests.servers import Server


@pytest.fixture
def settings(valkey_server: Server, namespace: str, tmp_path: Path) -> Settings:
    return settings_for(tmp_path, valkey_server.url, namespace)


@pytest.fixture
async def running(settings: Settings) -> AsyncIterator[Dispatching]:
    async with dispatching(settings) as running:
        yield running


@pytest.fixture
def stage(namespace: str) -> Iterator[Stage]:
    """The stage named as the namespace."""
    stage = STAGES[namespace] = Stage()
    yield stage
    del STAGES[namespace]


@pytest.fixture
async def runner(settings: Settings) -> AsyncIterator[Runner]:
    """A runner without a dispatcher around it."""
    registry = Registry.build(settings)
    await registry.start()
    async with EgressClient(settings.egress.allow) as http:
        yield Runner(registry, http)
    await registry.aclose()

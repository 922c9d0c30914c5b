"""An installation in a folder of its own; every process that ran in it is gone after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import Installation
from tests.servers import Server


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    installation.configure()
    try:
        yield installation
    finally:
        installation.close()


@pytest.fixture
def redis_server() -> Iterator[Server]:
    """A server of the test's own that keeps its data on disk."""
    with Server(extra=["--appendonly", "yes"]) as server:
        yield server

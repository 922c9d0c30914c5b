"""One installation for all modules, and a shell in its folder: straight to Redis, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.e2e.installation import Installation

CONFIG = """
[targets.held]
executor = "python"
callable = "tasks:work"

[schedules.nightly]
cron = "30 2 * * MON-FRI"
timezone = "Europe/Berlin"
target = "work"
"""
ADMIN = "gwk_admin_0123456789abcdef"


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """`gateway up` with an admin key; the target `held` is paused."""
    installation = Installation(tmp_path_factory.mktemp("cli"), env={"GATEWAY_API_KEY": ADMIN})
    installation.configure(more=CONFIG)
    installation.client.headers["Authorization"] = f"Bearer {ADMIN}"
    try:
        installation.up()
        installation.client.post("/targets/held/pause").raise_for_status()
        yield installation
    finally:
        installation.close()


@pytest.fixture(scope="module")
def installed(standing: Installation) -> Installation:
    """It, with no dead job of another module."""
    purged = standing.client.post("/dlq/purge", json={"filter": {}})
    assert purged.status_code == 200, purged.text
    return standing


@pytest.fixture(scope="module", params=["url", "straight"])
def shell(request: pytest.FixtureRequest, installed: Installation) -> Shell:
    """Commands against the installation, both ways."""
    url = {"GATEWAY_URL": str(installed.client.base_url), "GATEWAY_API_KEY": ADMIN}
    return Shell(installed.folder, **(url if request.param == "url" else {}))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Straight to Redis is the same code behind another transport: `test_jobs.py` shows it, the rest by `-m long`."""
    for item in items:
        if "[straight" in item.name and item.path.name in ("test_dlq.py", "test_installation.py"):
            item.add_marker(pytest.mark.long)


@pytest.fixture
def bare(tmp_path: Path) -> Shell:
    """Commands in an empty folder."""
    return Shell(tmp_path)

"""Fixtures for every test: real servers, one per worker process, and a namespace per test."""

from __future__ import annotations

import gc
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from xdist.scheduler import WorkStealingScheduling

from gateway.cli import environment
from tests.cli.shell import DRIVER
from tests.proxy import Proxy
from tests.servers import Server

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell starts what runs in its background so, and every program that a test stops by SIGINT would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# where it is forbidden, each of the hundreds of processes that tests start would compile the program anew
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection() -> None:
    """Nothing that is collected becomes garbage, and much of the time went into looking for it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor does it until the end, so that nobody looks through it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker process takes modules one after another, and from the others' ends when it has no more: so few of
    them are the work of several, which would each start what the module's tests share."""
    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """A Valkey on a unix socket, without persistence; shared, so keep to `namespace`, and do not kill it."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_cluster() -> Iterator[Server]:
    """A cluster of one node that holds every slot; shared, so keep to `namespace`, and do not kill it."""
    with Server(cluster=True) as server:
        yield server


@pytest.fixture
async def proxy(valkey_server: Server) -> AsyncIterator[Proxy]:
    """On the way to `valkey_server`: what goes through it may lose its reply, or wait for it."""
    async with Proxy(valkey_server) as proxy:
        yield proxy


@pytest.fixture(scope="session", autouse=True)
def driver() -> Iterator[None]:
    """Ends the process that ran the commands of shells."""
    yield
    DRIVER.close()


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(autouse=True)
def leave_import_path() -> Iterator[None]:
    """A registry puts its working directory on the path, and every import of a later test would look through all."""
    path = list(sys.path)
    yield
    sys.path[:] = path


@pytest.fixture(autouse=True)
def leave_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that a test runs in this process would set up logging for every test after it, on a stream that is
    closed by then."""
    monkeypatch.setattr(environment, "configure_logging", lambda settings: None)

"""A store on each topology: one partition on a plain server, four on a cluster that refuses a script which strays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from gateway.store import Store, scripts
from tests.servers import Server
from tests.store.audit import audit
from tests.store.clock import Clock, with_clock
from tests.store.site import LANES, Site

NOW_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Topology:
    """Where a store is and how it is laid out; `partition` is the one that tests of one partition use."""

    url: str
    partitions: int
    partition: int


@pytest.fixture(params=["one", "cluster"])
def topology(request: pytest.FixtureRequest) -> Topology:
    server: Server = request.getfixturevalue("valkey_server" if request.param == "one" else "valkey_cluster")
    with server.client() as client:
        client.flushall(asynchronous=True)  # whoever looks for a namespace's keys looks through all that tests left
    return Topology(server.url, 1, 0) if request.param == "one" else Topology(server.url, 4, 2)


@pytest.fixture
async def store(topology: Topology, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """An empty store whose scripts read a standing clock."""
    load = with_clock()
    monkeypatch.setattr(scripts, "script", load)
    opened = await Store.open(topology.url, namespace=namespace, partitions=topology.partitions, lanes=LANES)
    yield opened
    await opened.aclose()


@pytest.fixture
async def site(store: Store, topology: Topology) -> AsyncIterator[Site]:
    """The store at work; whatever a test did with it, its books must balance at the end."""
    clock = Clock(store, NOW_MS)
    await clock.advance(0)
    site = Site(store, clock, topology.partition)
    yield site
    await audit(site)

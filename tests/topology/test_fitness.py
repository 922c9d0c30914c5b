"""Whether a server is fit to hold jobs: what stops the start, what is said, and that each says its mend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.errors import StoreMismatch
from gateway.store import Store
from gateway.store.connection import connect
from gateway.store.durability import Durability
from gateway.store.fitness import Version, refuse, version_of, warnings
from tests.servers import Server

GOOD: dict[str, Any] = {
    "redis_version": "7.2.4",
    "valkey_version": "9.1.2",
    "aof_enabled": 1,
    "maxmemory_policy": "noeviction",
    "connected_slaves": 1,
}


def redis(version: str, **facts: Any) -> dict[str, Any]:
    """A Redis, which unlike Valkey has one version only."""
    return (
        {name: value for name, value in GOOD.items() if name != "valkey_version"} | {"redis_version": version} | facts
    )


def said(facts: Mapping[str, Any], durability: Durability = "memory", replicas: int = 1) -> str:
    return "\n".join(remark.text for remark in warnings(facts, durability=durability, replicas=replicas))


@pytest.mark.parametrize(
    ("facts", "durability", "part"),
    [
        (redis("6.2.20"), "memory", "Redis 6.2.20 is too old; upgrade it to Redis 7.0 or later"),
        ({"valkey_version": "7.1.0"}, "memory", "upgrade it to Valkey 7.2 or later"),
        (GOOD | {"maxmemory_policy": "allkeys-lru"}, "memory", "CONFIG SET maxmemory-policy noeviction"),
        (redis("7.0.15"), "fsync", "which Redis 7.0.15 has not; upgrade it to 7.2 or later"),
        (GOOD | {"aof_enabled": 0}, "fsync", "CONFIG SET appendonly yes"),
    ],
)
def test_server_that_would_lose_jobs_is_refused(facts: dict[str, Any], durability: Durability, part: str) -> None:
    with pytest.raises(StoreMismatch) as caught:
        refuse(facts, durability=durability)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "durability", "part"),
    [
        (GOOD | {"aof_enabled": 0}, "memory", "CONFIG SET appendonly yes"),
        (GOOD | {"aof_last_write_status": "err"}, "memory", "free space"),
        (GOOD | {"connected_slaves": 0}, "replica", "lower gateway.replicas"),
        (redis("7.0.15"), "memory", "CVE-2025-49844"),
        (redis("7.2.10"), "memory", "7.2.11"),
        (redis("8.1.0"), "memory", "8.2.2"),
        (GOOD | {"valkey_version": "8.1.3"}, "memory", "8.1.4"),
        (redis("7.4.2"), "fsync", "7.4.3"),
    ],
)
def test_what_may_lose_jobs_is_said_with_its_mend(facts: dict[str, Any], durability: Durability, part: str) -> None:
    refuse(facts, durability=durability)
    assert part in said(facts, durability)


@pytest.mark.parametrize("facts", [GOOD, redis("7.2.11"), redis("7.4.6"), redis("8.2.3"), redis("9.0.0")])
def test_nothing_is_said_of_a_server_in_order(facts: dict[str, Any]) -> None:
    for durability in ("memory", "fsync", "replica"):
        refuse(facts, durability=durability)
        assert said(facts, durability) == ""


def test_valkey_is_known_by_its_own_version() -> None:
    assert version_of(GOOD) == Version("Valkey", (9, 1, 2))
    assert str(version_of(redis("7.0.15"))) == "Redis 7.0.15"


async def test_clocks_that_are_apart_and_a_missing_log_are_said_at_the_start(namespace: str) -> None:
    with Server() as server, server.client() as client:
        for apart_s, word in ((3600, "ahead of"), (-90, "behind")):
            clock_s = client.time()[0] - apart_s
            store = Store(
                connect(server.url),
                namespace=namespace,
                partitions=1,
                lanes=("default",),
                clock=lambda clock_s=clock_s: clock_s,  # type: ignore[misc]
            )
            await store.configure()
            await store.aclose()
            remarks = {remark.subject: remark.text for remark in store.remarks}
            assert "appendonly" in remarks["persistence"]
            said = re.search(r"its clock is (\d+) s (ahead of|behind) this machine's.*NTP", remarks["clock"])
            assert said is not None, remarks
            assert said[2] == word
            assert int(said[1]) == pytest.approx(abs(apart_s), abs=5)  # the start takes a while


async def test_eviction_policy_stops_the_start(namespace: str) -> None:
    with Server(extra=["--maxmemory-policy", "allkeys-lru"]) as server, pytest.raises(StoreMismatch, match="noevict"):
        await Store.open(server.url, namespace=namespace)

"""What a Redis server says of itself, as far as it concerns us: for people who look after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError, ResponseError

from gateway.store.client import Client
from gateway.store.fitness import Version, version_of
from gateway.store.refusals import store_error
from gateway.store.store import Store

_ANYONE = ("", "*", "0.0.0.0", "::", "-::*", "* -::*")  # noqa: S104 (what is looked for)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """One server; `settings` are those of CONFIG that it lets us see."""

    address: str
    version: Version
    role: str
    policy: str
    memory_bytes: int
    memory_most_bytes: int
    aof: bool
    aof_status: str
    rdb_status: str
    loading: bool
    settings: dict[str, str]

    @property
    def open_to_all(self) -> bool:
        """Whether it listens on every address and wants no password."""
        given = self.settings
        wide = given.get("bind", "127.0.0.1").strip() in _ANYONE and given.get("port") != "0"
        return wide and given.get("requirepass") == "" and given.get("protected-mode") == "no"


async def examine_servers(store: Store) -> list[ServerFacts]:
    """Every server that holds data; raises StoreError."""
    try:
        return [await _examine(server) for server in await store.client.servers()]
    except (RedisError, OSError) as error:
        raise store_error(error) from error


async def server_times(store: Store) -> list[float]:
    """What the servers' clocks say, in Unix seconds; raises StoreError."""
    try:
        times = [await server.time() for server in await store.client.servers()]
    except (RedisError, OSError) as error:
        raise store_error(error) from error
    return [seconds + micros / 1e6 for seconds, micros in times]


async def round_trips(store: Store, count: int, clock: Callable[[], float]) -> list[float]:
    """How long each of `count` empty calls took, in seconds, the slowest server's; raises StoreError."""
    slowest: list[float] = []
    try:
        for server in await store.client.servers():
            took = []
            for _ in range(count):
                began_s = clock()
                await server.ping()
                took.append(clock() - began_s)
            slowest = max(slowest, took, key=sum)
    except (RedisError, OSError) as error:
        raise store_error(error) from error
    return slowest


async def _examine(server: Client) -> ServerFacts:
    facts: dict[str, Any] = await server.info()
    kwargs = server.connection_pool.connection_kwargs
    place = kwargs.get("path") or f"{kwargs.get('host', '?')}:{kwargs.get('port', '?')}"
    return ServerFacts(
        address=str(place),
        version=version_of(facts),
        role=str(facts.get("role", "master")),
        policy=str(facts.get("maxmemory_policy", "noeviction")),
        memory_bytes=int(facts.get("used_memory", 0)),
        memory_most_bytes=int(facts.get("maxmemory", 0)),
        aof=bool(int(facts.get("aof_enabled", 0))),
        aof_status=str(facts.get("aof_last_write_status", "ok")),
        rdb_status=str(facts.get("rdb_last_bgsave_status", "ok")),
        loading=bool(int(facts.get("loading", 0))),
        settings=await _settings(server),
    )


async def _settings(server: Client) -> dict[str, str]:
    """Some of CONFIG; nothing where this user, or a hosted server, does not let us see it."""
    try:
        found = await server.config_get("bind", "port", "requirepass", "protected-mode", "appendfsync", "save")
    except ResponseError:
        return {}
    return {_text(name): _text(value) for name, value in found.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)

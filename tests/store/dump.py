"""All that is stored, as a value that can be compared: what a repeated call must not change."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from gateway.store import Store
from tests.store.clock import KEY

Dump = dict[str, Any]


async def dump(store: Store) -> Dump:
    """Every key of the store without its prefix's namespace, its value, and whether it expires."""
    found: Dump = {}
    for keyspace in store.keyspaces:
        async for key in store.client.scan_iter(match=f"{keyspace.prefix}*", count=10_000):
            name = key.decode().removeprefix(keyspace.prefix)
            if name != KEY:
                found[f"{keyspace.partition}:{name}"] = await _value(store.client, key)
    return found


async def _value(client: Redis, key: bytes) -> Any:
    kind = str(await client.type(key), "ascii")  # type: ignore[arg-type]
    reads: dict[str, Any] = {
        "string": client.get,
        "hash": client.hgetall,
        "set": client.smembers,
        "zset": lambda name: client.zrange(name, 0, -1, withscores=True),
    }
    return await reads[kind](key), await client.pttl(key) > 0

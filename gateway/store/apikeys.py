"""API keys in Redis: one HASH in the control partition, a JSON value for each id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from gateway.apikeys import ApiKey, Scope, new_key
from gateway.errors import NotFound, StoreError
from gateway.jobs import Callback
from gateway.store.refusals import answered
from gateway.store.store import Store

MOST = 10_000
"""Keys of one installation, so that a client in a loop cannot fill Redis with them."""


async def create_key(
    store: Store, name: str, scopes: Iterable[Scope], *, now_ms: int, callback: Callback | None = None
) -> tuple[str, str]:
    """Stores a new key: its id, and its text, which nobody can be shown again. Raises ValueError or StoreError."""
    key, text = new_key(name, scopes, now_ms=now_ms, callback=callback)
    if await answered(store.client.hlen(_hash(store))) >= MOST:
        raise ValueError(f"there are {MOST} API keys already; delete some")
    await answered(store.client.hset(_hash(store), key.key_id, msgspec.json.encode(key, enc_hook=float).decode()))
    return key.key_id, text


async def find_key(store: Store, key_id: str) -> ApiKey | None:
    """The key of that id, if there is one; raises StoreError."""
    found = await answered(store.client.hget(_hash(store), key_id))
    return None if found is None else _parse(cast("bytes", found))


async def list_keys(store: Store) -> list[ApiKey]:
    """Every key, the oldest first; raises StoreError."""
    found = await answered(store.client.hgetall(_hash(store)))
    return sorted(
        (_parse(cast("bytes", value)) for value in found.values()), key=lambda key: (key.created_ms, key.key_id)
    )


async def any_key(store: Store) -> bool:
    """Whether there is any key at all; raises StoreError."""
    return await answered(store.client.hlen(_hash(store))) > 0


async def delete_key(store: Store, key_id: str) -> None:
    """Takes a key away for good; raises NotFound or StoreError."""
    if await answered(store.client.hdel(_hash(store), key_id)) == 0:
        raise NotFound(f"no API key with the id {key_id[:64]!r}")


def _hash(store: Store) -> str:
    return store.control.apikeys


def _parse(value: bytes) -> ApiKey:
    try:
        return msgspec.json.decode(value, type=ApiKey, dec_hook=lambda kind, each: kind(each))
    except msgspec.MsgspecError as error:
        raise StoreError("an API key in Redis cannot be read: delete it, or upgrade this process") from error

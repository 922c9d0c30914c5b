"""Triggers that were registered over the API: one HASH in the control partition, a JSON value for each name."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from gateway.errors import NotFound, StoreError, WrongState
from gateway.store.refusals import answered
from gateway.store.store import Store

MOST = 1000
"""Triggers of one installation, so that a client in a loop cannot fill Redis with them."""


class StoredTrigger(msgspec.Struct, frozen=True):
    """A trigger as it was put, secrets included; times in Unix ms."""

    definition: msgspec.Raw
    created_ms: int
    updated_ms: int

    def table(self) -> dict[str, Any]:
        """The definition, as a table of the configuration would be."""
        return msgspec.json.decode(self.definition, type=dict[str, Any])


async def put_trigger(store: Store, name: str, definition: bytes, *, now_ms: int) -> bool:
    """Registers a trigger, or replaces it: whether it is new. Raises WrongState (too many) or StoreError."""
    before = await find_trigger(store, name)
    if before is None and await answered(store.client.hlen(_hash(store))) >= MOST:
        raise WrongState(f"there are {MOST} triggers already; delete some")
    kept = StoredTrigger(msgspec.Raw(definition), before.created_ms if before else now_ms, now_ms)
    await answered(store.client.hset(_hash(store), name, msgspec.json.encode(kept).decode()))
    return before is None


async def find_trigger(store: Store, name: str) -> StoredTrigger | None:
    """The trigger of that name, if there is one; raises StoreError."""
    found = await answered(store.client.hget(_hash(store), name))
    return None if found is None else _parse(cast("bytes", found))


async def list_triggers(store: Store) -> dict[str, StoredTrigger]:
    """All of them by name; raises StoreError."""
    found = await answered(store.client.hgetall(_hash(store)))
    return {cast("bytes", name).decode(): _parse(cast("bytes", value)) for name, value in found.items()}


async def remove_trigger(store: Store, name: str) -> None:
    """Raises NotFound or StoreError."""
    if await answered(store.client.hdel(_hash(store), name)) == 0:
        raise NotFound(f"no trigger named {name[:64]!r} was registered")


def _hash(store: Store) -> str:
    return store.control.triggers


def _parse(value: bytes) -> StoredTrigger:
    try:
        return msgspec.json.decode(value, type=StoredTrigger)
    except msgspec.MsgspecError as error:
        raise StoreError("a trigger in Redis cannot be read: delete it, or upgrade this process") from error

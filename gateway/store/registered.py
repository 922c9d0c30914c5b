"""Targets registered at run time: one HASH in the control partition, and a revision that moves with every change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from gateway.errors import NotFound, StoreError, WrongState
from gateway.store.refusals import answered
from gateway.store.scripts import Arg
from gateway.store.store import Store

MOST = 10_000
"""Registered targets of one installation, so that a client in a loop cannot fill Redis with them."""

_OWN = "~"
"""What no name of a target begins with; what the HASH holds besides does."""

_REVISION = f"{_OWN}revision"


@dataclass(frozen=True, slots=True)
class Registered:
    """A target's table as it was sent (JSON), secrets and all; times in Unix ms."""

    name: str
    table: bytes
    created_ms: int
    updated_ms: int

    def __repr__(self) -> str:
        return f"Registered(name={self.name!r})"


async def put_registered(store: Store, name: str, table: bytes) -> Literal["created", "updated"]:
    """Registers a target, or replaces it; raises WrongState where there are too many, or StoreError."""
    args: list[Arg] = [name, table, MOST]
    verdict = (await store.run("target_put", store.control, args)).decode()
    if verdict == "full":
        raise WrongState(f"there are {MOST} registered targets already; delete some")
    return "updated" if verdict == "updated" else "created"


async def remove_registered(store: Store, name: str) -> None:
    """Forgets a registered target; raises NotFound or StoreError."""
    if name.startswith(_OWN) or await store.run("target_remove", store.control, [name]) == 0:
        raise NotFound(f"no target named {name[:64]!r} was registered")


async def registered_revision(store: Store) -> bytes:
    """What changes whenever anything was registered or forgotten; raises StoreError."""
    return await _read(store, "hget", _REVISION) or b""


async def every_registered(store: Store) -> tuple[bytes, list[Registered]]:
    """The revision, and all that is registered at it; raises StoreError."""
    found = await _read(store, "hgetall")
    revision = found.pop(_REVISION.encode(), b"")
    return revision, [_registered(name.decode(), value) for name, value in found.items()]


async def _read(store: Store, command: str, *args: str) -> Any:
    return await answered(cast("Any", getattr(store.client, command)(store.control.targets, *args)))


def _registered(name: str, value: bytes) -> Registered:
    try:
        updated, created, table = value.split(b" ", 2)
        return Registered(name, table, int(created), int(updated))
    except ValueError as error:
        raise StoreError(f"the registered target {name} cannot be read: delete it, or upgrade this process") from error

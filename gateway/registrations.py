"""Keeps a process's registry in step with the targets that are registered at run time, and what it registered itself in
a Redis that lost it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec
import orjson
import structlog

from gateway.errors import ConfigError, StoreError, StoreMismatch
from gateway.registry import Registry
from gateway.registry.targets import Target
from gateway.settings import read_target
from gateway.store import Store
from gateway.store.registered import Registered, every_registered, registered_revision

log = structlog.get_logger(__name__)

POLL_S = (0.4, 0.8)
"""Between these, at random: how soon a change is seen here; 2 s are promised."""

_LOST = (
    "its jobs, API keys and whatever was registered over the API are gone; limits and schedules of the configuration "
    "are registered again"
)


class Registrations:
    """What is registered in a store, made into targets of a registry; what cannot be used here is logged, and left out.

    `known` is what the registry has now, by name. `anew` is called when all was registered in an empty Redis again.
    """

    def __init__(
        self, store: Store, registry: Registry, *, rng: random.Random, anew: Callable[[], None] = lambda: None
    ) -> None:
        self.known: dict[str, Registered] = {}
        self._store = store
        self._registry = registry
        self._rng = rng
        self._anew = anew
        self._looked_at = 0
        self._revision: bytes | None = None
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Looks for changes until cancelled; raises StoreMismatch."""
        while True:
            try:
                await self.restore()
                await self.refresh()
            except StoreMismatch:
                raise
            except StoreError as error:
                log.warning("registered targets not read", error=str(error))
            await asyncio.sleep(self._rng.uniform(*POLL_S))

    async def restore(self) -> bool:
        """Registers all of this process anew if a partition, the next one in turn, has lost it; whether it had.

        Raises StoreError, StoreMismatch.
        """
        partition, self._looked_at = self._looked_at, (self._looked_at + 1) % self._store.partitions
        if await self._store.is_registered(partition):
            return False
        await self._store.register()
        self._anew()
        log.error("Redis has lost its data", partition=partition, detail=_LOST)
        return True

    async def refresh(self) -> bool:
        """Takes over what has changed since; whether anything has. Raises StoreError."""
        async with self._lock:
            if self._revision is not None and await registered_revision(self._store) == self._revision:
                return False
            revision, found = await every_registered(self._store)
            targets = {}
            for each in found:
                if (target := self._target(each)) is not None:
                    targets[each.name] = target
            for target in targets.values():
                await self._learn_flow(target)
            await self._store.read_signing_keys()
            self._registry.replace_registered(targets)
            self.known = {each.name: each for each in found if each.name in targets}
            self._revision = revision
            return True

    def _target(self, each: Registered) -> Target | None:
        """The target, the same object as before where nothing of it has changed."""
        if each == self.known.get(each.name):
            return self._registry.targets.get(each.name)
        if self._registry.is_configured(each.name):
            log.warning("registered target hidden by the configuration file", target=each.name)
            return None
        try:
            settings = read_target(each.name, orjson.loads(each.table), "")
            place = f"target {each.name}"
            return self._registry.make_target(each.name, msgspec.structs.replace(settings, place=place))
        except (ConfigError, orjson.JSONDecodeError) as error:
            log.error("registered target cannot be used here", target=each.name, error=str(error))
            return None

    async def _learn_flow(self, target: Target) -> None:
        flow = target.flow
        if flow is not None and not self._store.has_flow(target.name, flow):
            await self._store.control_flow(target.name, flow)

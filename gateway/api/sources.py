"""Which triggers there are: those of the file, and those that were registered over the API, known within seconds."""

from __future__ import annotations

import structlog

from gateway.api.believed import Believed
from gateway.api.problems import Refused
from gateway.errors import ConfigError, NotFound
from gateway.keys import NAME
from gateway.registry import Registry
from gateway.settings import read_trigger
from gateway.store import Store
from gateway.store.triggers import StoredTrigger, find_trigger
from gateway.triggers import Trigger

BELIEVED_S = 2.0
"""For how long another process may still go by what a trigger was before it was changed."""

_LATER = ((b"retry-after", b"30"),)

log = structlog.get_logger(__name__)


class Triggers:
    """Finds triggers by name; those of the file need no look into Redis."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        self._registered = Believed[Trigger | None](BELIEVED_S)

    async def find(self, name: str) -> Trigger:
        """The trigger; raises NotFound, StoreError where only Redis could tell, or Refused (503) for one that this
        configuration has no place for any more."""
        found = self._registry.triggers.get(name)
        if found is None and NAME.match(name):
            found = await self._registered.get(name, lambda: self._stored(name))
        if found is None:
            raise NotFound(f"no trigger named {name[:64]!r}")
        return found

    def known(self, name: str) -> Trigger | None:
        """The trigger, if it is known without asking Redis."""
        return self._registry.triggers.get(name) or self._registered.known(name)

    def forget(self, name: str) -> None:
        """Drops what is remembered of a trigger that this process has just changed."""
        self._registered.forget(name)

    def make(self, name: str, stored: StoredTrigger) -> Trigger:
        """The trigger of a stored definition; raises ConfigError."""
        return self._registry.make_trigger(name, read_trigger(name, stored.table(), ""))

    async def _stored(self, name: str) -> Trigger | None:
        stored = await find_trigger(self._store, name)
        if stored is None:
            return None
        try:
            return self.make(name, stored)
        except ConfigError as exc:
            log.error("a registered trigger does not fit the configuration", trigger=name, error=str(exc))
            raise Refused(503, f"trigger {name!r} cannot be used as it stands", headers=_LATER) from exc

"""Which triggers there are: those of the file, and those that were registered over the API, known within seconds."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import structlog

from gateway.api.problems import Refused
from gateway.errors import ConfigError, NotFound
from gateway.keys import NAME
from gateway.limits import Rate
from gateway.registry import Registry
from gateway.settings import read_trigger
from gateway.store import Store
from gateway.store.triggers import StoredTrigger, find_trigger
from gateway.triggers import Trigger

CACHED_S = 2.0
"""For how long another process may still go by what a trigger was before it was changed."""

CACHED_MOST = 4096

log = structlog.get_logger(__name__)


class Triggers:
    """Finds triggers by name; those of the file need no look into Redis."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        self._known: dict[str, tuple[float, asyncio.Task[Trigger | None]]] = {}

    async def find(self, name: str) -> Trigger:
        """The trigger; raises NotFound, StoreError where only Redis could tell, or Refused (503) for one that this
        configuration has no place for any more."""
        found = self._registry.triggers.get(name)
        if found is None and NAME.match(name):
            found = await asyncio.shield(self._asked(name))
        if found is None:
            raise NotFound(f"no trigger named {name[:64]!r}")
        return found

    def known(self, name: str) -> Trigger | None:
        """The trigger, if it is known without asking Redis."""
        found = self._registry.triggers.get(name)
        if found is not None or (known := self._known.get(name)) is None:
            return found
        asked_s, task = known
        if asyncio.get_running_loop().time() - asked_s > CACHED_S or not task.done() or _failed(task):
            return None
        return task.result()

    def forget(self, name: str) -> None:
        """Drops what is remembered of a trigger that this process has just changed."""
        self._known.pop(name, None)

    def make(self, name: str, stored: StoredTrigger) -> Trigger:
        """The trigger of a stored definition; raises ConfigError."""
        return self._registry.make_trigger(name, read_trigger(name, stored.table(), ""))

    def _asked(self, name: str) -> asyncio.Task[Trigger | None]:
        now_s = asyncio.get_running_loop().time()
        known = self._known.get(name)
        if known is None or now_s - known[0] > CACHED_S or _failed(known[1]):
            self._known.pop(name, None)
            if len(self._known) >= CACHED_MOST:
                self._known.pop(next(iter(self._known)))
            known = self._known[name] = (now_s, asyncio.create_task(self._stored(name)))
        return known[1]

    async def _stored(self, name: str) -> Trigger | None:
        stored = await find_trigger(self._store, name)
        if stored is None:
            return None
        try:
            return self.make(name, stored)
        except ConfigError as exc:
            log.error("a registered trigger does not fit the configuration", trigger=name, error=str(exc))
            raise Refused(503, f"trigger {name!r} cannot be used as it stands", headers=_LATER) from exc


class Meters:
    """Spaces each trigger's deliveries out by its `limit` (GCRA), in this process."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def wait_s(self, name: str, rate: Rate, burst: int, *, now_s: float) -> float:
        """0 if one may pass now, and counts it; else for how many seconds none may."""
        interval_s = rate.per_s / rate.number
        at_s = max(self._next.get(name, 0.0), now_s)
        ahead_s = at_s - now_s - interval_s * (burst - 1)
        if ahead_s > 1e-9:
            return ahead_s
        self._next[name] = at_s + interval_s
        return 0.0


def over_limit(wait_s: float) -> Refused:
    """503 and not 4xx: many providers never repeat what a 4xx refused."""
    return Refused(
        503,
        "more deliveries than this trigger's limit; send it again",
        headers=((b"retry-after", str(max(1, math.ceil(wait_s))).encode()),),
    )


_LATER = ((b"retry-after", b"30"),)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

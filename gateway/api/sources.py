"""Which triggers there are: those of the file, and those that were registered over the API, known within seconds."""

from __future__ import annotations

import math

import structlog

from gateway.api.believed import Believed
from gateway.api.problems import Refused
from gateway.errors import ConfigError, NotFound
from gateway.keys import NAME
from gateway.limits import Rate
from gateway.registry import Registry
from gateway.settings import read_trigger
from gateway.store import Store
from gateway.store.triggers import StoredTrigger, find_trigger
from gateway.triggers import Trigger

BELIEVED_S = 2.0
"""For how long another process may still go by what a trigger was before it was changed."""

NOTED_EVERY_S = 60.0
"""Of the deliveries over a trigger's limit one is noted, then no other for so long."""

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


class Meters:
    """Spaces each trigger's deliveries out by its `limit` (GCRA), in this process."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._told: dict[str, tuple[float, int]] = {}

    def wait_s(self, name: str, rate: Rate, burst: int, *, now_s: float) -> float:
        """0 if one may pass now, and counts it; else for how many seconds none may."""
        interval_s = rate.per_s / rate.number
        # what lies later than a whole burst is of a clock that was set back since
        next_s = self._next[name] = min(self._next.get(name, 0.0), now_s + burst * interval_s)
        at_s = max(next_s, now_s)
        ahead_s = at_s - now_s - interval_s * (burst - 1)
        if ahead_s > 1e-9:
            return ahead_s
        self._next[name] = at_s + interval_s
        return 0.0

    def passed_over(self, name: str, *, now_s: float) -> int | None:
        """Of one over the limit: how many more were since one was noted last; None if this one is not to be either,
        since a flood would push out what else is noted apart."""
        at_s, silent = self._told.get(name, (-NOTED_EVERY_S, 0))
        if 0 <= now_s - at_s < NOTED_EVERY_S:
            self._told[name] = (at_s, silent + 1)
            return None
        self._told[name] = (now_s, 0)
        return silent


def over_limit(wait_s: float) -> Refused:
    """503 and not 4xx: many providers never repeat what a 4xx refused."""
    return Refused(
        503,
        "more deliveries than this trigger's limit; send it again",
        headers=((b"retry-after", str(max(1, math.ceil(wait_s))).encode()),),
    )


_LATER = ((b"retry-after", b"30"),)

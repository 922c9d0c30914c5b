"""Notes deliveries beside the requests: what would be pushed out before it could be looked at is never written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

import structlog

from gateway.deliveries import MAX_BODY, Noted
from gateway.errors import StoreError
from gateway.store import Store
from gateway.store.deliveries import MOST_REJECTIONS, Entry, List, record_deliveries
from gateway.triggers import Trigger

EVERY_S = 0.25
CROWDED_S = 1.0
"""In place of `EVERY_S` while more come in between than are kept: what is written then lasts no longer than that."""

WRITE_S = 5.0
MAX_TRIGGERS = 1000
WAITING_BYTES = 64 * 1024 * 1024
"""Bodies that wait to be written; what comes on top while Redis is away is noted without its body."""

log = structlog.get_logger(__name__)


class Journal:
    """Keeps the last deliveries of each trigger, and writes them a few times a second; `write` does so at once.

    What is noted is a view, no promise: while Redis is away the oldest give way. A delivery that no route took is
    written before it is acknowledged, for there is no job that would keep it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[tuple[str, List], deque[tuple[Trigger, Noted]]] = {}
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def note(self, trigger: Trigger, noted: Noted) -> None:
        """Has it written soon."""
        which: List = "rejections" if noted.verdict == "rejected" else "deliveries"
        most = trigger.reception.deliveries.keep
        most = min(most, MOST_REJECTIONS) if which == "rejections" else most
        if most == 0:
            return
        waiting = self._waiting.get((trigger.name, which))
        if waiting is None or waiting.maxlen != most:
            if len(self._waiting) >= MAX_TRIGGERS:
                return
            waiting = self._waiting[trigger.name, which] = deque(waiting or (), maxlen=most)
            self._bytes = sum(len(each.request.body) for kept in self._waiting.values() for _, each in kept)
        if len(waiting) == most:
            self._bytes -= len(waiting.popleft()[1].request.body)
        wanted = which == "deliveries" and trigger.reception.deliveries.bodies
        size = len(noted.request.body)
        if not wanted or size > MAX_BODY or self._bytes + size > WAITING_BYTES:
            noted, size = noted.without_body(), 0
        self._bytes += size
        waiting.append((trigger, noted))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_soon())

    async def write(self, trigger: Trigger, noted: Noted) -> str:
        """Writes it now: its id, empty if the trigger keeps none. Raises StoreError."""
        keep = trigger.reception.deliveries.keep
        if keep == 0:
            return ""
        return (await record_deliveries(self._store, [_entry(trigger, noted, "deliveries", keep)]))[0]

    async def aclose(self) -> None:
        """Writes what waits, if Redis takes it."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._waiting:
            await self._write()

    async def _write_soon(self) -> None:
        wait_s = EVERY_S
        while self._waiting:
            await asyncio.sleep(wait_s)
            wait_s = CROWDED_S if any(len(kept) == kept.maxlen for kept in self._waiting.values()) else EVERY_S
            await self._write()

    async def _write(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        entries = [
            _entry(trigger, noted, which, kept.maxlen or 1)
            for (_, which), kept in waiting.items()
            for trigger, noted in kept
        ]
        try:
            async with asyncio.timeout(WRITE_S):
                await record_deliveries(self._store, entries)
        except (StoreError, TimeoutError) as error:
            log.warning("deliveries were not noted", deliveries=len(entries), error=str(error))


def hidden_names(trigger: Trigger) -> Collection[str]:
    """The headers and parameters that hold what a trigger's verifier checks, whatever they are called."""
    verifier = trigger.verifier
    found = set()
    for holder in (verifier.config, getattr(verifier, "scheme", None)):
        found |= {str(getattr(holder, name, "") or "").lower() for name in ("header", "query")}
    return found - {""}


def _entry(trigger: Trigger, noted: Noted, which: List, keep: int) -> Entry:
    own = hidden_names(trigger)
    noted = noted if len(noted.request.body) <= MAX_BODY else noted.without_body()
    detail = noted.detail(own, bodies=trigger.reception.deliveries.bodies)
    return Entry(trigger.name, which, keep, noted.summary(own), detail)

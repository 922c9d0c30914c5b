"""Notes deliveries beside the requests: what would be pushed out before it could be looked at is never written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

import msgspec
import structlog

from gateway.deliveries import APART, MAX_BODY, Noted
from gateway.errors import StoreError
from gateway.store import Store
from gateway.store.deliveries import MOST_REJECTIONS, Entry, List, record_deliveries
from gateway.triggers import Trigger

EVERY_S = 0.25
CROWDED_S = 1.0
"""In place of `EVERY_S` while more come in between than are kept: what is written then lasts no longer than that."""

EACH_MOST = 1000
"""So many deliveries to a trigger are all noted between two writes; of more, fewer and fewer: they push one another
out, and to hold each for a moment costs as much as checking its signature."""

SAMPLES = 50
"""Of so many times as many deliveries one is noted then."""

WRITE_S = 5.0
MAX_TRIGGERS = 1000
WAITING_BYTES = 64 * 1024 * 1024
"""Bodies that wait to be written; what comes on top while Redis is away is noted without its body."""

log = structlog.get_logger(__name__)


class _Waiting(msgspec.Struct):
    """What waits to be noted of a trigger in one of its lists: as many entries as are kept there, those with a body of
    `most_body` bytes or less with it. `seen` are those that might have been noted since the last write."""

    trigger: Trigger
    most: int
    most_body: int
    entries: deque[tuple[Trigger, Noted]]
    seen: int = 0


class Journal:
    """Keeps the last deliveries of each trigger, and writes them a few times a second; `write` does so at once.

    What is noted is a view, no promise: while Redis is away the oldest give way. A delivery that no route took is
    written before it is acknowledged, for there is no job that would keep it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[tuple[str, List], _Waiting] = {}
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def wants(self, trigger: Trigger) -> bool:
        """Whether one more delivery that was taken in is to be noted."""
        waiting = self._waiting.get((trigger.name, "deliveries"))
        if waiting is None:
            return True
        waiting.seen = seen = waiting.seen + 1
        return seen <= EACH_MOST or seen % (seen // SAMPLES) == 0

    def note(self, trigger: Trigger, noted: Noted) -> None:
        """Has it written soon."""
        which: List = "rejections" if noted.verdict in APART else "deliveries"
        waiting = self._waiting.get((trigger.name, which))
        if waiting is None or waiting.trigger is not trigger:
            waiting = self._begin(trigger, which)
            if waiting is None:
                return
        entries, size = waiting.entries, len(noted.request.body)
        if len(entries) == waiting.most:
            self._bytes -= len(entries.popleft()[1].request.body)
        if size > waiting.most_body or self._bytes + size > WAITING_BYTES:
            noted, size = noted.without_body(), 0
        self._bytes += size
        entries.append((trigger, noted))
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

    def _begin(self, trigger: Trigger, which: List) -> _Waiting | None:
        """Where to note deliveries to a trigger as it is now; None if none are to be noted."""
        kept = trigger.reception.deliveries
        most = min(kept.keep, MOST_REJECTIONS) if which == "rejections" else kept.keep
        before = self._waiting.get((trigger.name, which))
        if most == 0 or (before is None and len(self._waiting) >= MAX_TRIGGERS):
            return None
        entries = deque(() if before is None else before.entries, maxlen=most)
        most_body = MAX_BODY if which == "deliveries" and kept.bodies else -1
        waiting = self._waiting[trigger.name, which] = _Waiting(trigger, most, most_body, entries)
        self._bytes = sum(len(noted.request.body) for each in self._waiting.values() for _, noted in each.entries)
        return waiting

    async def _write_soon(self) -> None:
        wait_s = EVERY_S
        while self._waiting:
            await asyncio.sleep(wait_s)
            wait_s = CROWDED_S if any(len(each.entries) == each.most for each in self._waiting.values()) else EVERY_S
            await self._write()

    async def _write(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        entries = [
            _entry(trigger, noted, which, each.most)
            for (_, which), each in waiting.items()
            for trigger, noted in each.entries
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

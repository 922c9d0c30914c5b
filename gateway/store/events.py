"""Live events: what the scripts write of each transition while somebody follows, read by one task for all followers.

A position is, per partition, the entry of its stream and how many of that entry's events were handed over; as a text it
is what `Last-Event-ID` holds. Nothing is asked of Redis, and nothing written there, while nobody follows.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import structlog

from gateway.errors import StoreError
from gateway.pauses import Pauses
from gateway.store.follower import Follower, LiveEvent
from gateway.store.refusals import answered
from gateway.store.store import Store

log = structlog.get_logger(__name__)

POLL_S = 0.1
RENEW_S = 10.0
FOLLOW_MS = 60_000
"""For how long the scripts write events after the last follower was seen: who comes back within it misses nothing."""

ENTRIES = 50
"""Entries of one partition that are read at once, of up to a hundred events each."""

_BACKOFF_S = (0.2, 2.0)
_WHOLE = 2**31
_PLACE = re.compile(r"(\d{1,16})-(\d{1,20})(?:\.(\d{1,4}))?\Z", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where one is in a partition's stream: an entry, and how many of its events are behind."""

    ms: int
    seq: int
    behind: int = _WHOLE

    @classmethod
    def parse(cls, text: str) -> Place:
        """Raises ValueError if the text is none."""
        found = _PLACE.match(text)
        if found is None:
            raise ValueError(text)
        ms, seq, behind = found.groups()
        return cls(int(ms), int(seq), _WHOLE if behind is None else int(behind))

    @property
    def entry(self) -> str:
        return f"{self.ms}-{self.seq}"

    def __str__(self) -> str:
        return self.entry if self.behind == _WHOLE else f"{self.entry}.{self.behind}"


Position = tuple[Place, ...]


def parse_position(text: str, partitions: int) -> Position:
    """A position from its text; raises ValueError if it is none of this installation."""
    places = tuple(Place.parse(part) for part in text.split(","))
    if len(places) != partitions:
        raise ValueError(text)
    return places


def format_position(position: Sequence[Place]) -> str:
    """What `parse_position` reads."""
    return ",".join(map(str, position))


class EventFeed:
    """The events of one store for any number of followers in this process; close it with `aclose()`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followers: set[Follower] = set()
        self._reader: asyncio.Task[None] | None = None
        self._position: list[Place] = []
        self._joining = asyncio.Lock()
        self._coming = 0

    @property
    def followers(self) -> int:
        """Those that follow, and those that are about to."""
        return len(self._followers) + self._coming

    def release(self) -> None:
        """Ends every follower's stream: the process stops."""
        for follower in self._followers:
            follower.end("stopping")

    async def aclose(self) -> None:
        """Ends the reading."""
        self.release()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    @asynccontextmanager
    async def follow(self, follower: Follower, since: Position | None = None) -> AsyncIterator[Follower]:
        """Hands every event to `follower` from now on, or from an earlier position: what of that is gone is told as a
        gap. Raises StoreError."""
        self._coming += 1
        try:
            async with self._joining:
                gap = await self._catch_up(since)
                if self._reader is None or self._reader.done():
                    self._reader = asyncio.create_task(self._read())
                self._followers.add(follower)
                until = tuple(self._position)
        finally:
            self._coming -= 1
        if gap:
            follower.gap()
        past = asyncio.create_task(self._hand_over_past(follower, since or until, until))
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            past.cancel()
            await asyncio.wait([past])

    async def _catch_up(self, since: Position | None) -> bool:
        """Has events written; the reader begins where they end now. Is something lost after `since`?"""
        found = [await self._announce(partition) for partition in range(self._store.partitions)]
        if self._reader is None or self._reader.done():
            self._position = [last for _, last, _, _ in found]
        return since is not None and any(_is_gone(place, *facts) for place, facts in zip(since, found, strict=True))

    async def _announce(self, partition: int) -> tuple[int, Place, Place, int]:
        """Since when events are written without a break, the last and the first entry, and how many were removed."""
        keyspace = self._store.keyspaces[partition]
        since, last, first, removed = await self._store.run("follow", keyspace, [FOLLOW_MS])
        return int(since), Place.parse(last.decode()), Place.parse(first.decode()), removed

    async def _hand_over_past(self, follower: Follower, since: Position, until: Position) -> None:
        """Every event after one position up to another, and then those that came meanwhile."""
        try:
            position = list(since)
            for partition, end in enumerate(until):
                while position[partition] < end:
                    entries = await self._entries(partition, position[partition], end)
                    if not entries:
                        break
                    for event in _events(entries, partition, position):
                        await follower.take_past(event)
            await follower.begin()
        except StoreError as error:
            log.warning("events of before cannot be read", error=str(error))
            follower.end("lost")

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        renew_at_s, pauses = loop.time() + RENEW_S, Pauses(*_BACKOFF_S)
        while self._followers:
            try:
                if loop.time() >= renew_at_s:
                    await self._renew()
                    renew_at_s = loop.time() + RENEW_S
                more = await self._step()
                pauses.begin_anew()
                await asyncio.sleep(0 if more else POLL_S)
            except StoreError as error:
                pause_s, renew_at_s = pauses.next_s(), 0.0
                log.warning("events interrupted", error=str(error), retry_in_s=round(pause_s, 2))
                await asyncio.sleep(pause_s)

    async def _renew(self) -> None:
        found = [await self._announce(partition) for partition in range(self._store.partitions)]
        gone = False
        for partition, (since_ms, last, first, removed) in enumerate(found):
            place = self._position[partition]
            if _is_gone(place, since_ms, last, first, removed):
                gone = True
                self._position[partition] = last if place > last else max(place, Place(since_ms - 1, 0))
        if gone:
            for follower in self._followers:
                follower.gap()

    async def _step(self) -> bool:
        """Hands over what came; is there more?"""
        more = False
        for partition in range(self._store.partitions):
            entries = await self._entries(partition, self._position[partition], None)
            more = more or len(entries) == ENTRIES
            for event in _events(entries, partition, self._position):
                for follower in self._followers:
                    follower.take(event)
        return more

    async def _entries(self, partition: int, after: Place, until: Place | None) -> list[Any]:
        """Entries from a place on (itself too if events of it are left)."""
        client, key = self._store.client, self._store.keyspaces[partition].events
        first = f"({after.entry}" if after.behind == _WHOLE else after.entry
        last = until.entry if until else "+"
        return list(await answered(cast("Any", client.xrange(key, first, last, count=ENTRIES))))


def _is_gone(place: Place, since_ms: int, last: Place, first: Place, removed: int) -> bool:
    """Were events after `place` not written, or written and removed?"""
    return place.ms < since_ms - 1 or (removed > 0 and (place.ms, place.seq) < (first.ms, first.seq)) or place > last


def _events(entries: Sequence[Any], partition: int, position: list[Place]) -> list[LiveEvent]:
    """The events of some entries in order, those behind left out; `position` moves past them."""
    out = []
    for entry_id, fields in entries:
        ms, seq = map(int, entry_id.split(b"-"))
        place = position[partition]
        behind = place.behind if (place.ms, place.seq) == (ms, seq) else 0
        at_ms, *lines = fields[b"e"].decode().split("\n")
        for number, line in enumerate(lines[behind:], behind + 1):
            kind, job_id, lane, target, attempt, note = line.split(" ", 5)
            position[partition] = Place(ms, seq, _WHOLE if number == len(lines) else number)
            out.append(LiveEvent(kind, job_id, target, lane, int(at_ms), int(attempt), note, format_position(position)))
    return out

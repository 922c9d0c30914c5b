"""Waiting for a job's end without polling: each process has a channel in every partition, on one connection of its own.

Lost messages neither hang nor lie: a wait is registered only once the channel is subscribed, its status read at that
same instant, and again after every reconnection; who waits in vain reads the record at the end of his patience.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import structlog
from redis.exceptions import RedisError

from gateway.errors import StoreError
from gateway.jobs import Status
from gateway.keys import Keyspace
from gateway.pauses import Pauses
from gateway.store.channels import follow
from gateway.store.scripts import Arg
from gateway.store.store import Store

log = structlog.get_logger(__name__)

CHUNK = 500
RECONNECT_S = (0.05, 1.0)
LEAVE_S = 1.0
_OVER = frozenset(status.value for status in Status if status.finished)


@dataclass(slots=True, eq=False)
class _End:
    """A job that is waited for: whether it ended, and how many wait."""

    told: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0


class Waits:
    """The waits of one process; close it with `aclose()`. Its connection is made by the first wait."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = secrets.token_hex(6)
        self._channels = [(keyspace, keyspace.ended(self._name)) for keyspace in store.keyspaces]
        self._ends: dict[str, _End] = {}
        self._subscribed = asyncio.Event()
        self._released = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Jobs that somebody waits for."""
        return len(self._ends)

    def release(self) -> None:
        """Lets everyone go who waits, and who would: the process stops."""
        self._released.set()

    async def aclose(self) -> None:
        """Ends the listening."""
        self.release()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener])

    async def until_over(self, job_id: str, timeout_s: float) -> None:
        """Returns when the job is over, after `timeout_s`, or at `release`, whichever is first.

        Which of them, only the record can tell. Raises StoreError where the wait cannot be registered.
        """
        if self._released.is_set():
            return
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        end = self._ends.setdefault(job_id, _End())
        end.waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wait(job_id, end)
        finally:
            end.waiting -= 1
            if end.waiting == 0:
                self._ends.pop(job_id, None)
                if not end.told.is_set():
                    await self._leave(job_id)

    async def _wait(self, job_id: str, end: _End) -> None:
        await _either(self._subscribed, self._released)
        if not self._released.is_set():
            await self._register([job_id])
            await _either(end.told, self._released)

    async def _register(self, job_ids: Sequence[str]) -> None:
        """Has the jobs' ends announced; those that are over already are told at once."""
        for job_id, status in zip(job_ids, await self._await_end("wait", job_ids), strict=True):
            if (status in _OVER or not status) and (end := self._ends.get(job_id)) is not None:
                end.told.set()

    async def _leave(self, job_id: str) -> None:
        """Best effort: what stays registered goes with the job's end, and tells nobody."""
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._await_end("leave", [job_id])
                if job_id in self._ends:  # somebody came meanwhile, and may have registered before we left
                    await self._register([job_id])

    async def _await_end(self, word: Literal["wait", "leave"], job_ids: Sequence[str]) -> list[str]:
        """The jobs' statuses, in order, all of one partition."""
        keyspace = self._store.keyspace_of(job_ids[0])
        args: list[Arg] = [self._name, word, *job_ids]
        return [status.decode() for status in await self._store.run("await_end", keyspace, args)]

    async def _listen(self) -> None:
        pauses = Pauses(*RECONNECT_S)

        async def subscribed() -> None:
            self._subscribed.set()
            await self._register_again()
            pauses.begin_anew()

        while True:
            try:
                await follow(self._store.client, self._channels, subscribed=subscribed, received=self._tell)
            except (RedisError, OSError, StoreError) as error:
                pause_s = pauses.next_s()
                log.warning("waits interrupted", error=str(error), retry_in_s=round(pause_s, 2))
            finally:
                self._subscribed.clear()
            await asyncio.sleep(pause_s)

    async def _register_again(self) -> None:
        for ids in self._store.by_partition(self._ends).values():
            for first in range(0, len(ids), CHUNK):
                await self._register(ids[first : first + CHUNK])

    def _tell(self, keyspace: Keyspace, job_id: bytes) -> None:
        end = self._ends.get(job_id.decode())
        if end is not None:
            end.told.set()


async def _either(*events: asyncio.Event) -> None:
    """Returns once any of the events is set."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()

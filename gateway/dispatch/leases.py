"""Keeps the leases of running jobs, from a thread with an event loop of its own: a blocked one must not lose them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence

import structlog

from gateway.errors import StoreError
from gateway.keys import Keyspace
from gateway.store.client import Client
from gateway.store.connection import connect
from gateway.store.leases import Renewed, extend

log = structlog.get_logger(__name__)

Held = tuple[int, str, str]
"""Partition, job id, token."""


class LeaseKeeper:
    """Renews every lease each third of its length, and says which jobs were lost or are to be cancelled.

    `held` and `renewed` are called from the thread; `renewed` must hand over to the event loop by itself.
    """

    def __init__(
        self,
        url: str,
        keyspaces: Sequence[Keyspace],
        dispatcher_id: str,
        *,
        lease_ms: int,
        heartbeat_ms: int,
        held: Callable[[], Sequence[Held]],
        renewed: Callable[[Renewed], None],
    ) -> None:
        self._url = url
        self._keyspaces = keyspaces
        self._dispatcher_id = dispatcher_id
        self._lease_ms = lease_ms
        self._heartbeat_ms = heartbeat_ms
        self._held = held
        self._renewed = renewed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; leases that are still held run out by themselves."""
        assert self._loop is not None, "the keeper was not started"
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._keep())

    async def _keep(self) -> None:
        client = connect(self._url)
        interval_s = self._lease_ms / 3000
        wait_s = interval_s
        try:
            while not await self._stopped_within(wait_s):
                try:
                    reached = await self._renew(client)
                except Exception as error:  # whatever it is: without another try every job here would be lost
                    log.error("leases not renewed", exc_info=error)
                    reached = False
                wait_s = interval_s if reached else min(interval_s, 0.5)
        finally:
            await client.aclose()

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return self._stop.is_set()

    async def _renew(self, client: Client) -> bool:
        """Whether every partition was reached; one that is away keeps no other from its renewal."""
        held = self._held()
        by_partition = [
            (keyspace, [(job_id, token) for partition, job_id, token in held if partition == keyspace.partition])
            for keyspace in self._keyspaces
        ]
        return all(await asyncio.gather(*(self._renew_one(client, *each) for each in by_partition)))

    async def _renew_one(self, client: Client, keyspace: Keyspace, mine: Sequence[tuple[str, str]]) -> bool:
        try:
            renewed = await extend(
                client,
                keyspace.prefix,
                self._dispatcher_id,
                mine,
                lease_ms=self._lease_ms,
                heartbeat_ms=self._heartbeat_ms,
            )
        except StoreError as error:
            log.warning("leases not renewed", partition=keyspace.partition, held=len(mine), error=str(error))
            return False
        if renewed.lost or renewed.cancel_asked:
            self._renewed(renewed)
        return True

"""Keeps the leases of running jobs, from a thread of its own: a blocked event loop must not lose them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import structlog

from gateway.errors import StoreError
from gateway.keys import Keyspace
from gateway.store.connection import connect_sync
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
        self._client = connect_sync(url)
        self._keyspaces = keyspaces
        self._dispatcher_id = dispatcher_id
        self._lease_ms = lease_ms
        self._heartbeat_ms = heartbeat_ms
        self._held = held
        self._renewed = renewed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; leases that are still held run out by themselves."""
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._client.close()

    def _run(self) -> None:
        interval_s = self._lease_ms / 3000
        wait_s = interval_s
        while not self._stop.wait(wait_s):
            wait_s = interval_s if self._renew() else min(interval_s, 0.5)

    def _renew(self) -> bool:
        held = self._held()
        for keyspace in self._keyspaces:
            mine = [(job_id, token) for partition, job_id, token in held if partition == keyspace.partition]
            try:
                renewed = extend(
                    self._client,
                    keyspace.prefix,
                    self._dispatcher_id,
                    mine,
                    lease_ms=self._lease_ms,
                    heartbeat_ms=self._heartbeat_ms,
                )
            except StoreError as error:
                log.warning("leases not renewed", held=len(mine), error=str(error))
                return False
            if renewed.lost or renewed.cancel_asked:
                self._renewed(renewed)
        return True

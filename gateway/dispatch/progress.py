"""Progress of running attempts, written to their records a few times a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import structlog

from gateway.errors import StoreError
from gateway.jobs import Claimed
from gateway.results import encode_progress
from gateway.store import Worker

log = structlog.get_logger(__name__)

EVERY_S = 0.5


class Progress:
    """Keeps the latest value that each attempt reported until `run` has written it."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._latest: dict[str, tuple[Claimed, str]] = {}
        self._reported = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def report(self, claimed: Claimed, value: Any) -> None:
        """Takes a value, from any thread; raises TypeError or ValueError if it is not small JSON."""
        encoded = encode_progress(value)
        self._loop.call_soon_threadsafe(self._take, claimed, encoded)

    async def run(self) -> None:
        """Writes what was reported; runs until cancelled."""
        while True:
            await self._reported.wait()
            self._reported.clear()
            latest, self._latest = self._latest, {}
            await asyncio.gather(*(self._write(worker, list(latest.values())) for worker in self._workers))
            await asyncio.sleep(EVERY_S)

    def _take(self, claimed: Claimed, encoded: str) -> None:
        self._latest[claimed.job_id] = (claimed, encoded)
        self._reported.set()

    async def _write(self, worker: Worker, latest: Sequence[tuple[Claimed, str]]) -> None:
        """Writes what belongs to one partition; one that is away keeps no other's back."""
        mine = [
            (claimed.job_id, claimed.token, encoded)
            for claimed, encoded in latest
            if claimed.partition == worker.keyspace.partition
        ]
        if not mine:
            return
        try:
            await worker.progress(mine)
        except StoreError as error:
            log.warning("progress not written", partition=worker.keyspace.partition, jobs=len(mine), error=str(error))

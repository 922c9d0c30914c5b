"""The one place for a suspect job: held until its attempt is over, or has shown that it does not kill at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import structlog

from gateway.dispatch.slots import Slots
from gateway.errors import GatewayError
from gateway.jobs import Claimed
from gateway.store import Store

log = structlog.get_logger(__name__)

LOOKS_PER_LEASE = 10


class SuspectPlace:
    """Who holds the place, and from when on.

    An attempt that has outlived a lease gives it on, so that those behind it do not wait for hours: it goes on beside
    the next one. A suspect whose next loss would be its end keeps it, for that loss must not be another's doing.
    `given_on` is told whenever the place is free again.
    """

    def __init__(
        self, slots: Slots, store: Store, *, lease_s: float, max_stalls: int, given_on: Callable[[], None]
    ) -> None:
        self._slots = slots
        self._store = store
        self._lease_s = lease_s
        self._max_stalls = max_stalls
        self._given_on = given_on
        self._job: Claimed | None = None
        self._from_s = math.inf

    def hold(self, job: Claimed) -> None:
        """The place that its claim has reserved is this job's."""
        self._job, self._from_s = job, asyncio.get_running_loop().time()

    def leave(self, job: Claimed) -> None:
        """Gives the place back, unless this job has given it on already."""
        if self._job is job:
            self._job = None
            self._slots.give_back_suspect()
            self._given_on()

    async def run(self) -> None:
        """Has those that outlive a lease give the place on; runs until cancelled."""
        now_s = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(self._lease_s / LOOKS_PER_LEASE)
            job = self._job
            if job is None or now_s() - self._from_s < self._lease_s:
                continue
            try:
                stalls = (await self._store.find(job.job_id)).record.stalls
            except GatewayError as error:
                log.debug("suspect not looked at", job_id=job.job_id, error=str(error))
                continue
            if stalls < self._max_stalls:
                self.leave(job)
            elif self._job is job:
                self._from_s = math.inf

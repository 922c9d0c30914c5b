"""How a dispatcher stops: what runs may end, the rest is released, and every outcome is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from gateway.dispatch.attempts import Attempts
from gateway.dispatch.claims import ClaimLoop
from gateway.executor import ENDING_S

log = structlog.get_logger(__name__)

_FLUSH_S = 5.0
"""After the drain: how long outcomes and releases may take to be written."""

_END_S = 3.0
"""Of that: how long attempts may take to end before they are left behind, to end with the process."""


@dataclass(slots=True)
class Stop:
    """Asked to stop: `drain` waits for what runs, `now` releases it."""

    drain: asyncio.Event = field(default_factory=asyncio.Event)
    now: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        """The first call drains, the second stops at once."""
        (self.now if self.drain.is_set() else self.drain).set()


async def drain(stop: Stop, attempts: Attempts, loops: Sequence[ClaimLoop], *, at_most_s: float) -> None:
    """Returns once nothing runs and every outcome is written, or both took too long. Nothing is claimed any more."""
    for loop in loops:
        loop.stop_claiming()
    waits = [asyncio.ensure_future(attempts.wait_idle()), asyncio.ensure_future(stop.now.wait())]
    await asyncio.wait(waits, timeout=at_most_s, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    for job_id in list(attempts.held):
        attempts.end(job_id, "released")
    try:
        async with asyncio.timeout(_FLUSH_S):
            await _let_end(attempts)
            await attempts.wait_empty()
            for loop in loops:
                await loop.wait_written()
    except TimeoutError:
        log.warning("outcomes not written; their leases will run out", jobs=len(attempts.held))


async def end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancels until all have ended: before Python 3.12 `wait_for`, which redis-py uses, may swallow a cancellation."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.2)


async def _let_end(attempts: Attempts) -> None:
    try:
        async with asyncio.timeout(_END_S):
            await attempts.wait_idle()
    except TimeoutError:
        attempts.leave_behind(most_s=ENDING_S)

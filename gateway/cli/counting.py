"""Counting jobs by status: how far a batch is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gateway.cli.printing import progress
from gateway.cli.session import Session
from gateway.client import AsyncGateway
from gateway.jobs import Status


def count_all(session: Session, wanted: Mapping[str, Any]) -> dict[str, int]:
    """How many jobs that fit there are of each status, without those of which there are none.

    One that moves on meanwhile counts once, as it was when it was first seen, or not at all.
    """
    seen = session.run(lambda gateway: _walk(gateway, wanted))
    counts = Counter(seen.values())
    return {status.value: counts[status] for status in Status if counts[status]}


async def _walk(gateway: AsyncGateway, wanted: Mapping[str, Any]) -> dict[str, Status]:
    seen: dict[str, Status] = {}
    with progress("jobs") as bar:
        task = bar.add_task("", total=None)
        async for job in gateway.jobs(**wanted):
            seen.setdefault(job.job_id, job.status)
            bar.update(task, completed=len(seen))
    return seen

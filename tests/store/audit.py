"""What must be true of a store whatever happened to it: each job in one place, and the counters agree."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gateway.jobs import Status
from tests.store.site import Site

ENDS = (Status.SUCCEEDED, Status.DEAD, Status.CANCELLED)


async def audit(site: Site) -> None:
    """Fails if a job is listed twice or nowhere, figures and counters do not add up, or an outbox has half an entry."""
    records = await site.records()
    twice = [job_id for job_id, times in Counter(record.job_id for record in records).items() if times > 1]
    assert not twice, f"listed more than once: {twice}"
    by = Counter(record.status for record in records)
    seen = await site.store.inspect()
    assert sum(lane.pending for lane in seen.lanes.values()) == by[Status.PENDING]
    of_lanes = Counter((record.lane, record.status) for record in records)
    for lane, figures in seen.lanes.items():
        for status in (Status.PENDING, Status.SCHEDULED, Status.RETRYING, Status.RUNNING, Status.DEAD):
            assert getattr(figures, status) == of_lanes[lane, status], (lane, status, figures)
    assert seen.due == by[Status.SCHEDULED] + by[Status.RETRYING] + await _timers(site)
    assert seen.running == by[Status.RUNNING]
    assert seen.dead == by[Status.DEAD]
    assert seen.finished == by[Status.SUCCEEDED] + by[Status.CANCELLED]
    counted: Counter[str] = Counter()
    for name, value in seen.counters.items():
        counted[name.split(":")[0]] += value
    began = counted["submitted"] + counted["replayed"]
    ended = sum(counted[str(status)] for status in ENDS)
    waiting = sum(by[status] for status in Status if not status.finished)
    assert began == ended + waiting, f"{began} submitted and replayed, {ended} ended, {waiting} under way"
    assert counted["evicted"] == ended - counted["replayed"] - sum(by[status] for status in ENDS)

    for keyspace in site.store.keyspaces:
        posted: list[bytes] = await site.store.client.zrange(f"{keyspace.prefix}outbox", 0, -1)  # type: ignore[assignment]
        server = await site.store.client.server_of(keyspace.prefix)
        kept = [key async for key in server.scan_iter(match=f"{keyspace.prefix}o:*", count=10_000)]
        assert sorted(f"{keyspace.prefix}o:".encode() + job_id for job_id in posted) == sorted(kept)


async def _timers(site: Site) -> int:
    """Timers of flows, which wait in `due` too."""
    members: list[Any] = [await site.store.client.zrange(f"{each.prefix}due", 0, -1) for each in site.store.keyspaces]
    return sum(member.startswith(b"~") for each in members for member in each)

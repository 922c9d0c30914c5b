"""Purging: dead jobs taken away for good, one by id or many by filter."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import NotFound, WrongState
from gateway.jobs import Record, Status
from gateway.store.listing import WINDOW, list_jobs
from gateway.store.store import Store


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead jobs; empty and None: any. Times are of their death, in Unix ms, both included."""

    target: str = ""
    reason: str = ""
    dead_after_ms: int | None = None
    dead_before_ms: int | None = None

    def accepts(self, record: Record) -> bool:
        at_ms = record.finished_ms or 0
        return (
            (not self.reason or record.reason == self.reason)
            and (self.dead_after_ms is None or at_ms >= self.dead_after_ms)
            and (self.dead_before_ms is None or at_ms <= self.dead_before_ms)
        )


async def purge(store: Store, job_id: str) -> None:
    """Takes one dead job away. Raises NotFound, or WrongState if it is not dead."""
    verdict = (await store.run("purge", store.keyspace_of(job_id), [job_id]))[0]
    if verdict == b"none":
        raise NotFound(f"no job with the id {job_id!r}")
    if verdict == b"not_dead":
        raise WrongState(f"job {job_id} is not dead, so it is not in the dead-letter queue")


async def purge_some(store: Store, wanted: DeadFilter, *, cursor: str | None = None) -> tuple[int, str | None]:
    """Looks through up to 500 dead jobs, the latest first, and takes away those that fit.

    How many that were, and the cursor to go on with, None at the end. Raises InvalidRequest on a foreign cursor.
    """
    page = await list_jobs(
        store, Status.DEAD, limit=WINDOW, cursor=cursor, target=wanted.target or None, keep=wanted.accepts
    )
    purged = 0
    for keyspace, ids in store.by_partition(record.job_id for record in page.records).items():
        verdicts = await store.run("purge", keyspace, ids)
        purged += verdicts.count(b"purged")
    return purged, page.next_cursor

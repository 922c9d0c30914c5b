"""Ends, and keeps alive, the work of jobs that goes on outside of any dispatcher."""

from __future__ import annotations

from gateway.errors import NotFound, StoreUnavailable, WrongState
from gateway.jobs import Settlement
from gateway.store.store import Store
from gateway.store.worker import read_settled, settle_args


async def settle_elsewhere(store: Store, settlement: Settlement) -> str:
    """The status that the job has now; raises WrongState if the token holds it no longer, NotFound, or StoreError."""
    keyspace, args = store.keyspace_of(settlement.job_id), settle_args([settlement])
    try:
        reply, uncertain = await store.run("settle", keyspace, args), False
    except StoreUnavailable:
        reply, uncertain = await store.run("settle", keyspace, args), True
    (status,) = read_settled([settlement], reply)
    if status in ("lost", "duplicate"):
        found = (await store.find_many([settlement.job_id], short=True))[0]
        if found is None:
            raise NotFound(f"no job with the id {settlement.job_id!r}")
        if uncertain and status == "duplicate":  # it took effect, and its answer was lost
            return str(found.record.status)
        raise WrongState(f"the token was used, or holds the job no longer: it is {found.record.status}")
    return status


async def heartbeat(store: Store, job_id: str, token: str, *, progress: str = "") -> int:
    """The job's new deadline in Unix ms; raises WrongState if the token does not hold it, or StoreError."""
    deadline_ms = await store.run("heartbeat", store.keyspace_of(job_id), [job_id, token, progress])
    if deadline_ms == 0:
        raise WrongState("the token holds the job no longer, or not yet: the answer 202 may still be on its way")
    return int(deadline_ms)

"""The dead-letter queue, and bulk replays of it."""

from __future__ import annotations

from typing import Any

from gateway.client.answers import JobRecord, JobSummary, Purged, ReplayStarted, ReplayState
from gateway.client.bodies import DeadFilter, encode
from gateway.client.call import Call, Listing, answer, nothing, path


def list_dead(page_size: int, target: str | None = None, reason: str | None = None) -> Listing[JobSummary]:
    """Dead jobs, the latest first."""
    query = {name: value for name, value in (("target", target), ("reason", reason)) if value}
    first = Call(method="GET", path="/dlq", read=answer(dict[str, Any]), query={**query, "limit": str(page_size)})
    return Listing(first, "jobs", JobSummary)


def get_dead(job_id: str) -> Call[JobRecord]:
    """The record of a dead job."""
    return Call(method="GET", path=path("dlq", job_id), read=answer(JobRecord))


def retry(job_id: str, max_attempts: int | None = None) -> Call[JobRecord]:
    """Sends a dead job back to its lane."""
    body = b"" if max_attempts is None else encode({"overrides": {"max_attempts": max_attempts}})
    return Call(method="POST", path=path("dlq", job_id, "retry"), read=answer(JobRecord), content=body, repeat="unsent")


def start_replay(
    wanted: DeadFilter, *, rate: str | None = None, limit: int | None = None, max_attempts: int | None = None
) -> Call[ReplayStarted]:
    """Sends dead jobs back, by filter and at a rate; all of them where the filter is empty."""
    body: dict[str, Any] = {"filter": wanted}
    body |= {name: value for name, value in (("rate", rate), ("limit", limit)) if value is not None}
    if max_attempts is not None:
        body["overrides"] = {"max_attempts": max_attempts}
    return Call(method="POST", path="/dlq/retry", read=answer(ReplayStarted), content=encode(body), repeat="unsent")


def get_replay(replay_id: str) -> Call[ReplayState]:
    """How far a bulk replay is."""
    return Call(method="GET", path=path("replays", replay_id), read=answer(ReplayState))


def stop_replay(replay_id: str) -> Call[ReplayState]:
    """Ends a bulk replay; the same again if it was stopped."""
    return Call(method="DELETE", path=path("replays", replay_id), read=answer(ReplayState))


def purge(job_id: str) -> Call[None]:
    """Takes a dead job away for good."""
    return Call(method="DELETE", path=path("dlq", job_id), read=nothing, repeat="unsent")


def purge_some(wanted: DeadFilter, cursor: str | None) -> Call[Purged]:
    """Takes those away that fit, of the next 500 dead jobs."""
    body: dict[str, Any] = {"filter": wanted, "cursor": cursor}
    return Call(method="POST", path="/dlq/purge", read=answer(Purged), content=encode(body))

"""The log lines of attempts that are over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gateway.dispatch.attempts import Running
from gateway.jobs import CALLBACK_TARGET, Claimed, Settlement
from gateway.results import error_type
from gateway.transitions import ENDING_LINES, Transitions

Settled = tuple[Running, Settlement, str]
"""An attempt whose outcome is written: how it ended, and the status that its job has now."""

LINES = ENDING_LINES | {"parked": "job parked", "lost": "outcome refused"}
"""By status; the last two can only a dispatcher say."""

_WARNED = frozenset({"dead", "lost"})


def tell_ended(transitions: Transitions, ended: Sequence[Settled], *, trace_of: Callable[[Claimed], str]) -> None:
    """A line for each of a batch, as far as there is room, kind by kind: where there is none it is only counted."""
    statuses = [status for _, _, status in ended]
    for status in set(statuses) & LINES.keys():
        room = transitions.room(LINES[status], statuses.count(status))
        if room:
            batch = [each for each in ended if each[2] == status]
            _tell(transitions, status, batch[:room], trace_of)


def _tell(transitions: Transitions, status: str, batch: Sequence[Settled], trace_of: Callable[[Claimed], str]) -> None:
    for running, settlement, _ in batch:
        job = running.claimed
        facts = facts_of(job) | _more(settlement, status)
        if status == "dead":
            facts["see"] = f"gateway jobs get {job.job_id}"
        if trace := trace_of(job):
            facts["trace_id"] = trace
        delivered = status == "succeeded" and job.target == CALLBACK_TARGET
        event = "callback delivered" if delivered else LINES[status]
        transitions.write(event, warning=status in _WARNED, **facts)


def facts_of(job: Claimed) -> dict[str, Any]:
    """What every line of an attempt says."""
    return {"job_id": job.job_id, "target": job.target, "lane": job.lane, "attempt": job.attempt}


def _more(settlement: Settlement, status: str) -> dict[str, Any]:
    """What went wrong by its type only: messages are made by users' code, and may hold anything."""
    more: dict[str, Any] = {}
    if settlement.error:
        more["error"] = error_type(settlement.error)
    if status == "retrying":
        more["delay_ms"] = settlement.delay_ms
    elif status == "dead":
        more["reason"] = settlement.shown_reason
    elif status == "lost":
        more |= {"outcome": settlement.outcome, "why": "the lease was lost"}
    return more

"""Waiting for a job's end: the gateway holds its answer until then, so nothing is polled while it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.client.answers import JobRecord
from gateway.client.bodies import JobOptions
from gateway.client.calls import jobs
from gateway.client.exchange import Pause, Retries, Steps, exchange
from gateway.errors import WaitTimeout

HOLD_S = 30.0
"""How long one request is held; a proxy in between may cut longer ones."""

_QUICK_S = 0.5
_PAUSES_S = (0.05, 1.0)


def run(
    target: str, payload: Any, options: JobOptions, *, timeout_s: float, retries: Retries, clock: Callable[[], float]
) -> Steps[JobRecord]:
    """Submits a job: its record once it is over. Raises WaitTimeout, and whatever a submit raises."""
    until_s = clock() + timeout_s
    made = yield from exchange(jobs.run(target, payload, options, hold_s=min(HOLD_S, timeout_s)), retries)
    if isinstance(made, JobRecord):
        return made
    record = yield from _ended(made.job_id, until_s, retries, clock)
    if record is None:
        raise WaitTimeout(made.job_id, timeout_s)
    return record


def wait(job_id: str, *, timeout_s: float, retries: Retries, clock: Callable[[], float]) -> Steps[JobRecord]:
    """The job's record once it is over. Raises WaitTimeout or NotFound."""
    record = yield from _ended(job_id, clock() + timeout_s, retries, clock)
    if record is None:
        raise WaitTimeout(job_id, timeout_s)
    return record


def _ended(job_id: str, until_s: float, retries: Retries, clock: Callable[[], float]) -> Steps[JobRecord | None]:
    """The record, None if the job is not over by then.

    A gateway that does not hold its answers is asked again and again, ever more rarely.
    """
    pause_s = _PAUSES_S[0]
    while True:
        asked_s = clock()
        hold_s = max(0.0, min(HOLD_S, until_s - asked_s))
        record = yield from exchange(jobs.get(job_id, hold_s=hold_s), retries)
        if record.status.finished:
            return record
        left_s = until_s - clock()
        if left_s <= 0:
            return None
        if clock() - asked_s < _QUICK_S:
            yield Pause(min(pause_s, left_s))
            pause_s = min(_PAUSES_S[1], pause_s * 2)

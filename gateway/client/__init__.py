"""For programs that use a gateway from outside: `Gateway`, `AsyncGateway`, and `verify_callback`."""

from __future__ import annotations

from gateway.client.answers import Accepted, BatchResult, JobRecord, JobStatus, JobSummary
from gateway.client.asynchronous import AsyncGateway
from gateway.client.blocking import Gateway
from gateway.client.bodies import CallbackOptions, JobBody, JobOptions, RetryOptions, ScheduleBody
from gateway.client.callbacks import verify_callback
from gateway.errors import BadAnswer, InvalidRequest, NotAllowed, NotFound, Unavailable, WaitTimeout, WrongState

__all__ = [
    "Accepted",
    "AsyncGateway",
    "BadAnswer",
    "BatchResult",
    "CallbackOptions",
    "Gateway",
    "InvalidRequest",
    "JobBody",
    "JobOptions",
    "JobRecord",
    "JobStatus",
    "JobSummary",
    "NotAllowed",
    "NotFound",
    "RetryOptions",
    "ScheduleBody",
    "Unavailable",
    "WaitTimeout",
    "WrongState",
    "verify_callback",
]

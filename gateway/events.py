"""What happens to jobs, as values: handed to `job_event` hooks, and shown as a record's timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EventType = Literal["accepted", "started", "succeeded", "retrying", "dead", "cancelled"]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job; `at_ms` is Unix milliseconds, `attempt` 0 before the first one."""

    type: EventType
    job_id: str
    target: str
    lane: str
    at_ms: int
    attempt: int = 0
    reason: str = ""
    error_type: str = ""

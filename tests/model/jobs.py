"""A job as the model knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.backoff import CALLBACK_RETRY
from gateway.jobs import CALLBACK_TARGET
from gateway.keys import PRIORITY_SPAN

ENDS: Mapping[str, str] = {"succeeded": "s", "dead": "d", "cancelled": "c"}
CALLBACK_ATTEMPTS = CALLBACK_RETRY.max_attempts


@dataclass(slots=True)
class Job:
    """One job; times as the scripts keep them (`due_us` in us, the rest in ms), 0 or '' where absent.

    `plain`: while pending it lies in the lane itself, since its target had no flows when it came there.
    """

    job_id: str
    lane: str
    target: str
    key: str
    priority: int
    max_attempts: int
    created_ms: int
    body: bytes
    callback: str = ""
    expires_ms: int = 0
    rank: int = 0
    first_rank: int = 0
    """The one that it was submitted with, and has again once it starts, where it got another when it became due."""
    status: str = "pending"
    plain: bool = True
    attempt: int = 0
    ready_ms: int = 0
    due_us: int = 0
    previous_ms: int = 0
    lease_ms: int = 0
    started_ms: int = 0
    token: str = ""
    suspect: bool = False
    stalls: int = 0
    cancel: str = ""
    reason: str = ""
    finished_ms: int = 0
    replay: str = ""
    callback_id: str = ""
    within_ms: int = 0
    """What a sign of life gives it, while its work goes on elsewhere; 0 while it does not."""
    least_ms: int = 0
    """What a retry waits then, at least."""

    @property
    def parked(self) -> str:
        """As its record has it."""
        return f"{self.within_ms} {self.least_ms}" if self.within_ms else ""

    @property
    def rank_class(self) -> int:
        return 100 - self.priority

    @property
    def queue(self) -> tuple[str, str, str]:
        return self.lane, self.target, self.key

    @property
    def finished(self) -> bool:
        return self.status in ENDS

    @property
    def is_callback(self) -> bool:
        return self.target == CALLBACK_TARGET

    def expired(self, now_ms: int) -> bool:
        return 0 < self.expires_ms <= now_ms

    def rank_of(self, seq: int) -> int:
        """Its rank with that sequence number."""
        return self.rank_class * PRIORITY_SPAN + seq

"""Rejected deliveries in the log: enough to see what is wrong, and not one line for each of a flood."""

from __future__ import annotations

import structlog

from gateway.api.seldom import Seldom

EVERY_S = 1.0

log = structlog.get_logger(__name__)


class Rejections:
    """Logs at most one rejection a second of each trigger, with how many were passed over since."""

    def __init__(self) -> None:
        self._told = Seldom(EVERY_S)

    def tell(self, trigger: str, reason: str, *, now_s: float) -> None:
        """One delivery of `trigger` was rejected at `now_s`, for a reason of the closed set."""
        silent = self._told.passed_over(trigger, now_s=now_s)
        if silent is not None:
            log.warning("delivery rejected", trigger=trigger, reason=reason, not_shown=silent)

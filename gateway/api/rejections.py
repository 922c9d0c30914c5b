"""Rejected deliveries in the log: enough to see what is wrong, and not one line for each of a flood."""

from __future__ import annotations

import structlog

EVERY_S = 1.0

log = structlog.get_logger(__name__)


class Rejections:
    """Logs at most one rejection a second of each trigger, with how many were passed over since."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}

    def tell(self, trigger: str, reason: str, *, now_s: float) -> None:
        """One delivery of `trigger` was rejected at `now_s`, for a reason of the closed set."""
        at_s, silent = self._told.get(trigger, (-EVERY_S, 0))
        if 0 <= now_s - at_s < EVERY_S:
            self._told[trigger] = (at_s, silent + 1)
            return
        self._told[trigger] = (now_s, 0)
        log.warning("delivery rejected", trigger=trigger, reason=reason, not_shown=silent)

"""How long what is finished is kept, in tests of something else."""

from __future__ import annotations

from gateway.store import RetentionLimits

DAY_MS = 86_400_000
NOTHING_KEPT = RetentionLimits(0, 0, 0)


def limits(*, finished_ms: int = DAY_MS, finished_most: int = 1000, dead_ms: int = DAY_MS) -> RetentionLimits:
    """Generous limits but for what is given."""
    return RetentionLimits(finished_ms, finished_most, dead_ms)

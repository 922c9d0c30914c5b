"""Whether a process is alive: does its event loop turn, and does what it is there for go on? Redis does not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.lag import LoopLag

HUNG_S = 10.0
"""Claim loops look for work at least every few seconds, however busy they are and whatever Redis does."""

BEHIND_S = 1.0
"""So late, and the loop is blocked; a process that is asked while it is does not answer at all."""


def liveness(lag: LoopLag, idle_s: Callable[[], float] | None = None) -> tuple[int, dict[str, Any]]:
    """Status and answer of `/livez`; `idle_s` says how long ago the process last did its rounds, if it has any."""
    behind_s, since_s = lag.behind_s, idle_s() if idle_s is not None else 0.0
    answer: dict[str, Any] = {"status": "alive", "loop_lag_ms": round(1000 * max(lag.seconds, behind_s), 3)}
    if behind_s > BEHIND_S:
        return 503, answer | {"status": "hung", "reason": f"the event loop was blocked for {behind_s:.1f} s"}
    if since_s > HUNG_S:
        return 503, answer | {"status": "hung", "reason": f"no claim loop has turned for {since_s:.0f} s"}
    return 200, answer

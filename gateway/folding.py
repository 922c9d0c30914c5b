"""Warnings that come again and again, folded: what an outage of Redis is told in, and not once for each try.

The rule, of each kind of the closed set `FOLDED`: the first has its line at once, later ones at most every `EVERY_S`
seconds, with how many had none since (`repeated`). That Redis answers again has one line for the whole process, however
many connections notice, with how many were still untold. A line about a single job is never folded.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import structlog

EVERY_S = 10.0
MOST_KINDS = 1000
"""Of more triggers and routes than that the rest shares its lines."""

BACK = "Redis is back"
"""Logged by a client that was failing and gets an answer, with `after_s`, for how long it was."""

OUTAGE = frozenset(
    {
        "deliveries were not noted",
        "dispatcher left without a goodbye",
        "embedded valkey cannot be started again",
        "events interrupted",
        "events of before cannot be read",
        "exchange failed",
        "jobs wait in the outbox",
        "leases not renewed",
        "nothing but failures for long; connecting anew",
        "outbox not read",
        "progress not written",
        "reap failed",
        "Redis takes no functions; scripts are run in their place",
        "registered targets not read",
        "replays interrupted",
        "schedules not given up",
        "schedules not looked after",
        "schedules not registered",
        "schedules wait",
        "the store refused",
        "upkeep failed",
        "waiting for Redis",
        "waits interrupted",
        "wake-ups interrupted",
    }
)
"""What our own loops and requests say while Redis is away: what else a process logs is not ours to leave out."""

FOLDED = OUTAGE | {"delivery unrouted"}

Kind = tuple[str, str, str]


class Folding:
    """A structlog processor that keeps the rule for one process; any thread may log through it."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[Kind, tuple[float, int]] = {}
        self._back_s = -math.inf

    def __call__(self, logger: Any, method: str, facts: structlog.types.EventDict) -> structlog.types.EventDict:
        event = facts.get("event")
        if not isinstance(event, str) or (event != BACK and event not in FOLDED) or "job_id" in facts:
            return facts
        with self._lock:
            repeated = self._back(float(facts["after_s"])) if event == BACK else self._again(method, event, facts)
        if repeated:
            facts["repeated"] = repeated
        return facts

    def _again(self, method: str, event: str, facts: structlog.types.EventDict) -> int:
        """How many of this kind had no line before this one; raises DropEvent if this has none either."""
        now_s = self._clock()
        kind = (event, method, str(facts.get("trigger") or facts.get("route") or ""))
        if kind not in self._told and len(self._told) >= MOST_KINDS:
            kind = (event, method, "")
        told_s, untold = self._told.get(kind, (-math.inf, 0))
        if now_s - told_s < EVERY_S:
            self._told[kind] = (told_s, untold + 1)
            raise structlog.DropEvent
        self._told[kind] = (now_s, 0)
        return untold

    def _back(self, after_s: float) -> int:
        """How many lines of the outage were left out; raises DropEvent if its end was told already."""
        now_s = self._clock()
        if now_s - after_s <= self._back_s:
            raise structlog.DropEvent
        self._back_s = now_s
        ended = [kind for kind in self._told if kind[0] in OUTAGE]
        untold = sum(self._told[kind][1] for kind in ended)
        self._told.update({kind: (self._told[kind][0], 0) for kind in ended})
        return untold

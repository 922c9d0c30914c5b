"""Python's garbage collector, set for a process that makes and drops a few short-lived objects a job or a request."""

from __future__ import annotations

import gc

YOUNG = 50_000
"""Allocations between two looks at the young objects; at Python's 700 a busy dispatcher spends a seventh of its time
on looking at objects that its jobs still hold."""


def collect_rarely() -> None:
    """Looks at the young less often: nothing that a start imports becomes garbage, and looking was a fifth of it."""
    gc.set_threshold(YOUNG, 20, 20)


def calm_collector() -> None:
    """Leaves what was loaded at start-up out of every later collection, and collects the young less often."""
    gc.collect()
    gc.freeze()
    collect_rarely()

"""`gateway stats`: the installation in figures."""

from __future__ import annotations

from gateway.cli.printing import print_facts, print_table
from gateway.cli.session import Session, speaks
from gateway.client.answers import LaneState, Stats
from gateway.client.calls.installation import get_stats

EVENTS = ("submitted", "succeeded", "retried", "dead")
"""What a table shows of a target; JSON has the rest."""


@speaks
def stats(session: Session) -> None:
    """Prints what waits, runs and is kept, and what happened so far."""
    session.show(get_stats(), _print)


def _print(stats: Stats) -> None:
    print_facts(
        {
            "running": stats.running,
            "due later": stats.due,
            "dead": stats.dead,
            "finished": stats.finished,
            "dispatchers": stats.dispatchers,
            "oldest due": f"{stats.late_seconds:.1f} s late",
        }
    )
    print_table(("lane", "pending", "oldest", "state"), map(lane_row, stats.lanes))
    targets = [
        (each.target, each.pending, *(each.events.get(event, 0) for event in EVENTS), each.blocked or "")
        for each in stats.targets
    ]
    print_table(("target", "pending", *EVENTS, "blocked"), targets)


def lane_row(lane: LaneState) -> tuple[object, ...]:
    """A lane as a row."""
    return lane.lane, lane.pending, f"{lane.oldest_seconds:.1f} s", "paused" if lane.paused else "open"

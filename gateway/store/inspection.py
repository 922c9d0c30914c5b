"""The installation in figures, of what each partition answers (lua/inspect.lua)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LaneDepth:
    """How many jobs of a lane are in each state, and for how long the longest has waited, in ms."""

    pending: int
    waited_ms: int
    paused: bool
    scheduled: int
    retrying: int
    dead: int
    running: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """The whole installation in figures, summed over the partitions (`late_ms`, `dead_ms`, `waited_ms`: the worst).

    `posted` are jobs on their way to another partition: they are in no lane yet.
    """

    lanes: dict[str, LaneDepth]
    due: int
    running: int
    dead: int
    finished: int
    dispatchers: int
    late_ms: int
    dead_ms: int
    posted: int
    counters: dict[str, int]


def read_inspection(replies: Sequence[Sequence[Any]], lanes: Sequence[str]) -> Inspection:
    """The sum of the partitions' replies, which name no lane: theirs are in the order of `lanes`."""
    counters: dict[str, int] = {}
    for reply in replies:
        for name, value in zip(reply[6][::2], reply[6][1::2], strict=True):
            counters[name.decode()] = counters.get(name.decode(), 0) + int(value)
    depths = {
        lane: _lane_depth([reply[9 + 6 * i : 15 + 6 * i] for reply in replies], _live(counters, lane))
        for i, lane in enumerate(lanes)
    }
    due, running, dead, finished = (sum(reply[i] for reply in replies) for i in range(4))
    return Inspection(
        lanes=depths,
        due=due,
        running=running,
        dead=dead,
        finished=finished,
        dispatchers=max(reply[4] for reply in replies),
        late_ms=max(reply[5] for reply in replies) // 1000,
        dead_ms=max(reply[7] for reply in replies),
        posted=sum(reply[8] for reply in replies),
        counters=counters,
    )


def _live(counters: Mapping[str, int], lane: str) -> int:
    """How many jobs of a lane are not over: those that came or came back, less those that ended."""
    signs = {"submitted": 1, "replayed": 1, "succeeded": -1, "dead": -1, "cancelled": -1}
    live = 0
    for name, count in counters.items():
        event, _, rest = name.partition(":")
        if rest.startswith(f"{lane}:"):
            live += signs.get(event, 0) * count
    return live


def _lane_depth(parts: Sequence[Sequence[int]], live: int) -> LaneDepth:
    """A lane from its partitions' figures (lua/inspect.lua). What is not over, and is nowhere else, runs: so that
    counting costs nothing where jobs start and succeed."""
    pending, waited, paused, scheduled, retrying, dead = zip(*parts, strict=True)
    running = live - sum(pending) - sum(scheduled) - sum(retrying)
    return LaneDepth(
        sum(pending), max(waited), any(paused), sum(scheduled), sum(retrying), sum(dead), running=max(0, running)
    )

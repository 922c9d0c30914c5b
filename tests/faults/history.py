"""What happened, written down outside of Redis by whoever did it: one line an event, whole, whoever else writes.

The clock is `CLOCK_MONOTONIC`, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["ack", "refused", "start", "end", "callback", "fault", "healed"]


STOOD_STILL = "SIGSTOP_of_a_dispatcher"
"""The fault after which its runs may begin late."""

AROUND_NS = 50_000_000
LATE_NS = 300_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """`run` names one run of a job (its process, and a number), or who it was that did it."""

    ns: int
    kind: Kind
    job: str
    attempt: int = 0
    run: str = "-"


class Recorder:
    """Appends events to a file; close it with `close()`."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, kind: Kind, jobs: Iterable[str] = ("-",), *, run: str = "-") -> int:
        """Writes an event for each job, all of this instant: the instant."""
        ns, run = time.monotonic_ns(), run.replace(" ", "_")
        os.write(self._descriptor, "".join(f"{ns} {kind} {job} 0 {run}\n" for job in jobs).encode())
        return ns

    def close(self) -> None:
        os.close(self._descriptor)


class Reader:
    """Reads a history while it grows; each look costs what came since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._events: list[Event] = []

    def read(self) -> History:
        """All that was written so far."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        self._events += map(_parse, whole.decode().splitlines())
        return History(self._events)


class History:
    """A history as it was read, in the order of time."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.ns)

    def of(self, kind: Kind) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def jobs(self, kind: Kind) -> set[str]:
        return {event.job for event in self.events if event.kind == kind}

    def by_job(self, kind: Kind) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.of(kind):
            found[event.job].append(event)
        return found

    def begun_late(self) -> set[str]:
        """Runs that a dispatcher begins as it is let go on: nothing was left to do for them but the call of their
        function when it was made to stand still, and by now others may run those jobs."""
        late: set[str] = set()
        stops, gone_on = ([event.ns for event in self.of(kind) if event.run == STOOD_STILL] for kind in _BOTH)
        for stop, healed in zip(stops, gone_on, strict=False):
            runs = [event for event in self.events if event.kind in ("start", "end")]
            awake = {_process(event) for event in runs if stop + AROUND_NS < event.ns < healed - AROUND_NS}
            window = range(healed - AROUND_NS, healed + LATE_NS)
            late |= {event.run for event in runs if event.ns in window and _process(event) not in awake}
        return late

    def recoveries_s(self) -> list[float]:
        """For each fault that was healed: how long until a job was taken in, and another one finished, again."""
        return [
            max(after[0].ns for after in later) / 1e9 - healed.ns / 1e9
            for healed in self.of("healed")
            if all(later := [[e for e in self.of(kind) if e.ns > healed.ns] for kind in ("ack", "end")])
        ]


_BOTH: tuple[Kind, Kind] = ("fault", "healed")


def _process(event: Event) -> str:
    return event.run.partition(".")[0]


def _parse(line: str) -> Event:
    ns, kind, job, attempt, run = line.split(" ")
    return Event(int(ns), kind, job, int(attempt), run)  # type: ignore[arg-type]

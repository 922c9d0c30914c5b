"""Runs rows, and says of each what came of it."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.checker import Facts, check, check_end
from tests.faults.places import Topology, placed
from tests.faults.rows import ROWS, Injected, Row, failover, network, processes, servers, skew, targets
from tests.faults.stage import on_stage

__all__ = ["Result", "chosen", "failover", "network", "processes", "run_row", "servers", "skew", "targets"]


@dataclass(frozen=True, slots=True)
class Result:
    """One row on one topology; it holds if there are no `breaches`."""

    number: str
    title: str
    topology: Topology
    injected: str
    times: int
    acknowledged: int
    lost: int
    lost_most: int
    doubled: int
    in_flight: int
    recovered_s: float | None
    notes: str
    breaches: tuple[str, ...]
    took_s: float


def run_row(row: Row, topology: Topology, *, seed: int, keep: Path | None = None) -> Result:
    """Sets the stage, injects, waits until all is done, checks, and stops everything.

    A row that cannot be carried out is broken, and tells why; the others are not to be kept from running by it. What a
    broken row leaves, logs and history, is copied to `keep`.
    """
    began_s = time.monotonic()
    facts, injected, recovered_s = Facts(), Injected(row.title, 0), None
    try:
        with (
            placed(topology, row.setup.server, disk_mb=row.setup.disk_mb) as place,
            on_stage(place, row.setup, seed=seed) as stage,
        ):
            injected = row.inject(stage)
            if not row.setup.serve:
                return _result(row, topology, Facts(), injected, None, began_s)
            facts = check(stage, lost_most=injected.lost_most, unwritten=injected.unwritten, forked=injected.forked)
            if facts.doubled > injected.in_flight:
                facts.breach("doubled", f"{facts.doubled} ran again, {injected.in_flight} were in flight")
            recovered_s = max(stage.history().recoveries_s(), default=None)
            check_end(stage, facts)
            if keep is not None and (facts.breaches or injected.breaches):
                shutil.copytree(stage.installation.folder, keep / f"{row.number}-{topology}", dirs_exist_ok=True)
    except Exception as error:
        traceback.print_exc()
        facts.breach("row", repr(error))
    return _result(row, topology, facts, injected, recovered_s, began_s)


def _result(
    row: Row, topology: Topology, facts: Facts, injected: Injected, recovered_s: float | None, began_s: float
) -> Result:
    return Result(
        row.number,
        row.title,
        topology,
        injected.what,
        injected.times,
        facts.acknowledged,
        facts.lost,
        injected.lost_most,
        facts.doubled,
        injected.in_flight,
        recovered_s,
        injected.notes,
        (*facts.breaches, *injected.breaches),
        time.monotonic() - began_s,
    )


def chosen(numbers: Iterable[str], topologies: Iterable[Topology]) -> Iterator[tuple[Row, Topology]]:
    """The rows of these numbers (all, if there are none) on those of these topologies where they apply."""
    wanted = tuple(numbers)
    for row in sorted(ROWS.values(), key=_order):
        if not wanted or row.number in wanted:
            yield from ((row, topology) for topology in topologies if topology in row.on)


def _order(row: Row) -> tuple[int, str]:
    digits = "".join(letter for letter in row.number if letter.isdigit())
    return int(digits), row.number

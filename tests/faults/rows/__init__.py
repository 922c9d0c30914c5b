"""The rows of the fault matrix: what each injects, on which topologies, and what else must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.places import Topology
from tests.faults.stage import Setup, Stage

STANDALONE: tuple[Topology, ...] = ("standalone",)
SENTINEL: tuple[Topology, ...] = ("sentinel",)
CLUSTER: tuple[Topology, ...] = ("cluster",)
EVERYWHERE: tuple[Topology, ...] = ("standalone", "sentinel", "cluster")


@dataclass(slots=True)
class Injected:
    """What a row did. `in_flight`: runs that may come twice for it; `lost_most`: what this fault may cost.

    `unwritten`: jobs that it may cost besides, by their ids. `forked`: some of what was written may be gone, and with
    it that a job was given away, or how it ended.
    `breaches` is what did not hold of what the row itself looks at, `notes` what is worth telling.
    """

    what: str
    times: int
    in_flight: int = 0
    lost_most: int = 0
    unwritten: set[str] = field(default_factory=set)
    forked: bool = False
    notes: str = ""
    breaches: list[str] = field(default_factory=list)

    def expect(self, true: bool, detail: object) -> None:
        """Notes a breach unless it is true."""
        if not true:
            self.breaches.append(f"row: {detail}"[:600])


Inject = Callable[[Stage], Injected]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the matrix, or a variant of it (`12b`)."""

    number: str
    title: str
    inject: Inject
    on: Sequence[Topology]
    setup: Setup


ROWS: dict[str, Row] = {}


def row(
    number: str, title: str, *, on: Sequence[Topology] = STANDALONE, setup: Setup | None = None
) -> Callable[[Inject], Inject]:
    """Makes a function a row of the matrix."""

    def add(inject: Inject) -> Inject:
        assert number not in ROWS, number
        ROWS[number] = Row(number, title, inject, on, setup or Setup())
        return inject

    return add

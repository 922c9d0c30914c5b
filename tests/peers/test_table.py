"""The tables that go into a page: as many cells in each line as its head has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.peers.install import Installed
from tests.peers.measure import Round
from tests.peers.peer import PEERS
from tests.peers.table import rows, settings

ROUND = Round(
    drain=1000, bulk=None, single=3, together=None, end_to_end=900, p50_ms=0.5, p99_ms=1.5, resident=float(2**20)
)


def test_every_line_of_the_tables_has_a_cell_for_each_column() -> None:
    measured = rows({"one": [ROUND, replace(ROUND, bulk=7)], "two": [replace(ROUND, drain=2000)], "three": []})
    ran = settings([Installed(peer, Path(), Path(), "1.0") for peer in PEERS])
    assert [line.split(" | ")[:3] for line in measured.splitlines()[2:]] == [
        ["| two", "2,000", "900"],
        ["| one", "1,000", "900"],
    ]
    for table in (measured, ran):
        assert len({line.count("|") for line in table.splitlines()}) == 1

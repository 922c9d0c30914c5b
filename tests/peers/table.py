"""Rounds as the table of `docs/benchmarks.md`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tests.peers.install import Installed
from tests.peers.measure import Round

_HEAD = (
    "| | drained, jobs/s | end to end, jobs/s | bulk, jobs/s | 50 at once, jobs/s | one by one, jobs/s | p50, ms | "
    "p99, ms | memory, MiB |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def rows(found: dict[str, list[Round]]) -> str:
    """A line for each, the medians of its rounds, the fastest first."""
    medians = {name: median(rounds) for name, rounds in found.items() if rounds}
    ordered = sorted(medians, key=lambda name: medians[name].drain, reverse=True)
    return "\n".join([_HEAD, *(_row(name, medians[name]) for name in ordered)])


def median(rounds: Sequence[Round]) -> Round:
    """Each figure's median."""
    values: dict[str, Any] = {each.name: _median([getattr(it, each.name) for it in rounds]) for each in fields(Round)}
    return Round(**values)


def settings(installed: Sequence[Installed]) -> str:
    """What each ran with."""
    lines = [f"| {it.peer.name} | {it.version} | {it.peer.setting} | {it.peer.jobs:,} |" for it in installed]
    return "\n".join(["| | version | setting | jobs a round |", "| --- | --- | --- | ---: |", *lines])


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _row(name: str, it: Round) -> str:
    rates = (it.drain, it.end_to_end, it.bulk, it.together, it.single)
    cells = [f"{value:,.0f}" if value is not None else "–" for value in rates]
    cells += [f"{it.p50_ms:.2f}", f"{it.p99_ms:.2f}", f"{it.resident / 2**20:.0f}"]
    return f"| {name} | {' | '.join(cells)} |"

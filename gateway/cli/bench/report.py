"""Figures and how they are shown."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table


def percentile(values: Sequence[float], q: float) -> float:
    """The value at rank `ceil(q * n)` of the sorted values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity, a value per repetition; `limit` are the bare limit's values of the same run."""

    name: str
    unit: str
    values: tuple[float, ...]
    limit: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The median of the ratios to the limit, pair by pair."""
        ratios = [value / bare for value, bare in zip(self.values, self.limit, strict=False) if bare]
        return statistics.median(ratios) if ratios else None


@dataclass(slots=True)
class Report:
    """What a measurement found, and on what."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    machine: str = ""

    def show(self, *, as_json: bool) -> None:
        """Prints a table, or JSON for machines."""
        if as_json:
            print(json.dumps(_facts(self)))
            return
        table = _table(self.machine, title=self.title)
        for figure in self.figures:
            table.add_row(*_cells(figure))
        Console().print(table)


def show_all(reports: Sequence[Report], *, as_json: bool) -> None:
    """Prints several reports of one machine as one table, or as one JSON array."""
    if as_json:
        print(json.dumps([_facts(report) for report in reports]))
        return
    table = _table(reports[-1].machine if reports else "")
    for report in reports:
        table.add_row(f"[bold]{report.title}[/]")
        for figure in report.figures:
            table.add_row(*_cells(figure), end_section=figure is report.figures[-1])
    Console().print(table)


def _table(machine: str, *, title: str | None = None) -> Table:
    table = Table("figure", "unit", title=title, caption=machine or None)
    for name in ("median", "min", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("of the\nbare limit", justify="right")
    return table


def _cells(figure: Figure) -> list[str]:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    spread = (statistics.median(figure.values), min(figure.values), max(figure.values))
    return [figure.name, figure.unit, *(f"{value:,.{0 if value >= 1000 else 2}f}" for value in spread), ratio]


def _facts(report: Report) -> dict[str, object]:
    figures = [_plain(figure) for figure in report.figures]
    return {"title": report.title, "machine": report.machine, "figures": figures}


def _plain(figure: Figure) -> dict[str, object]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": statistics.median(figure.values),
        "values": figure.values,
        "ratio": figure.ratio,
    }

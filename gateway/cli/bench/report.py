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
        pairs = list(zip(self.values, self.limit, strict=False))
        return statistics.median(value / bare for value, bare in pairs if bare) if pairs else None


@dataclass(slots=True)
class Report:
    """What a measurement found."""

    title: str
    figures: list[Figure] = field(default_factory=list)

    def show(self, *, as_json: bool) -> None:
        """Prints a table, or JSON for machines."""
        if as_json:
            print(json.dumps({"title": self.title, "figures": [_plain(figure) for figure in self.figures]}))
            return
        table = Table("figure", "unit", "median", "min", "max", "of the bare limit", title=self.title)
        for figure in self.figures:
            ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
            spread = (statistics.median(figure.values), min(figure.values), max(figure.values))
            table.add_row(figure.name, figure.unit, *(f"{value:,.2f}" for value in spread), ratio)
        Console().print(table)


def _plain(figure: Figure) -> dict[str, object]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": statistics.median(figure.values),
        "values": figure.values,
        "ratio": figure.ratio,
    }

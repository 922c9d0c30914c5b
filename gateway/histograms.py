"""Histograms and sums by label, kept as plain numbers and fed by the batch, where the library takes a lock for each.

Each takes at most `LABELS_MOST` different labels; what comes after them is counted together as `OTHER`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
FAST_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

LABELS_MOST = 200
OTHER = "_other"
"""No name of ours begins with `_`."""


def label_of(known: Any, labels: Any) -> Any:
    """The labels themselves if there is room for them, else as many `OTHER`."""
    if labels in known or len(known) < LABELS_MOST:
        return labels
    return OTHER if isinstance(labels, str) else (OTHER,) * len(labels)


class Histogram(Collector):
    """Observations by labels (a string, or a tuple of as many as there are)."""

    def __init__(self, name: str, help: str, labels: Sequence[str], *, bounds: Sequence[float] = SECONDS) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._bounds = tuple(bounds)
        self._counts: dict[Any, list[int]] = {}
        self._sums: dict[Any, float] = {}

    def observe(self, labels: Any, value: float) -> None:
        """One observation."""
        self.observe_many(labels, (value,))

    def observe_many(self, labels: Any, values: Sequence[float]) -> None:
        """A batch under the same labels: sorted, it costs a bisection for each bucket, not for each value."""
        counts = self._counts.get(labels)
        if counts is None:
            labels = label_of(self._counts, labels)
            counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
            self._sums.setdefault(labels, 0.0)
        ordered, bounds, done = sorted(values), self._bounds, 0
        while done < len(ordered):
            bucket = bisect_left(bounds, ordered[done])
            upto = bisect_right(ordered, bounds[bucket], done) if bucket < len(bounds) else len(ordered)
            counts[bucket] += upto - done
            done = upto
        self._sums[labels] += sum(ordered)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, counts in list(self._counts.items()):
            total, buckets = 0, []
            for bound, count in zip((*map(str, map(float, self._bounds)), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(_values(labels), buckets, self._sums[labels])
        yield family


class Sums(Collector):
    """How many, and how much in all, by labels: a histogram without its buckets, where there are many labels."""

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._sums: dict[Any, list[float]] = {}

    def observe(self, labels: Any, value: float) -> None:
        """One observation."""
        self.observe_many(labels, (value,))

    def observe_many(self, labels: Any, values: Sequence[float]) -> None:
        """A batch under the same labels."""
        pair = self._sums.get(labels)
        if pair is None:
            pair = self._sums.setdefault(label_of(self._sums, labels), [0, 0.0])
        pair[0] += len(values)
        pair[1] += sum(values)

    def collect(self) -> Iterator[SummaryMetricFamily]:
        family = SummaryMetricFamily(self._name, self._help, labels=self._labels)
        for labels, (count, total) in list(self._sums.items()):
            family.add_metric(_values(labels), int(count), total)
        yield family


class Counts(Collector):
    """A counter by labels, or without any; `name` without `_total`."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._counts: dict[Any, int] = {} if labels else {(): 0}

    def add(self, labels: Any = (), n: int = 1) -> None:
        if labels not in self._counts:
            labels = label_of(self._counts, labels)
        self._counts[labels] = self._counts.get(labels, 0) + n

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(_values(labels), count)
        yield family


def _values(labels: Any) -> list[str]:
    return [labels] if isinstance(labels, str) else list(labels)

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

NOTED_MOST = 256
"""Observations of the same labels that wait to be put into their buckets, at most (or a batch that is larger)."""

LABELS_MOST = 200
OTHER = "_other"
"""No name of ours begins with `_`."""


def label_of(known: Any, labels: Any) -> Any:
    """The labels themselves if there is room for them, else as many `OTHER`."""
    if labels in known or len(known) < LABELS_MOST:
        return labels
    return OTHER if isinstance(labels, str) else (OTHER,) * len(labels)


class Histogram(Collector):
    """Observations by labels (a string, or a tuple of as many as there are).

    An observation is only noted; buckets are filled by so many at a time, and where somebody looks. From one thread.
    """

    def __init__(self, name: str, help: str, labels: Sequence[str], *, bounds: Sequence[float] = SECONDS) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._bounds = tuple(bounds)
        self._noted: dict[Any, list[float]] = {}
        self._counts: dict[Any, list[int]] = {}
        self._sums: dict[Any, float] = {}

    def observe(self, labels: Any, value: float) -> None:
        """One observation."""
        try:
            noted = self._noted[labels]
        except KeyError:
            noted = self._new(labels)
        noted.append(value)
        if len(noted) >= NOTED_MOST:
            self._fill(noted, labels)

    def observe_many(self, labels: Any, values: Sequence[float]) -> None:
        """A batch under the same labels."""
        noted = self._noted.get(labels)
        if noted is None:
            noted = self._new(labels)
        noted.extend(values)
        if len(noted) >= NOTED_MOST:
            self._fill(noted, labels)

    def _new(self, labels: Any) -> list[float]:
        labels = label_of(self._counts, labels)
        if labels not in self._counts:
            self._noted[labels] = []
            self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        return self._noted[labels]

    def _fill(self, noted: list[float], labels: Any) -> None:
        """Sorted, a batch costs a bisection for each bucket, not for each value."""
        labels = labels if labels in self._counts else label_of(self._counts, labels)
        noted.sort()
        counts, bounds, done = self._counts[labels], self._bounds, 0
        while done < len(noted):
            bucket = bisect_left(bounds, noted[done])
            upto = bisect_right(noted, bounds[bucket], done) if bucket < len(bounds) else len(noted)
            counts[bucket] += upto - done
            done = upto
        self._sums[labels] += sum(noted)
        noted.clear()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, counts in list(self._counts.items()):
            self._fill(self._noted[labels], labels)
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
        try:
            self._counts[labels] += n
        except KeyError:
            labels = label_of(self._counts, labels)
            self._counts[labels] = self._counts.get(labels, 0) + n

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(_values(labels), count)
        yield family


def _values(labels: Any) -> list[str]:
    return [labels] if isinstance(labels, str) else list(labels)

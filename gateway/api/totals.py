"""What the worker processes of one gateway count, added up: a scrape reaches any of them, and tells of them all.

Each worker writes its figures to a file of its own about once a second, and whenever it is scraped, so that a later
scrape of another worker never shows less. A worker that starts goes on from the figures of one that has ended. The
metrics library's own way of this costs a write at every count, and is switched on by the environment before its import.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

log = structlog.get_logger(__name__)

EVERY_S = 1.0

LARGEST = frozenset({"gateway_loop_lag_seconds", "gateway_build_info", "process_start_time_seconds", "process_max_fds"})
"""Gauges that are no sums: of these the largest counts."""

OWN = frozenset({"gateway_redis_up"})
"""Of these the last one counts, that of the worker that was asked."""

Labels = tuple[tuple[str, str], ...]


class Family(msgspec.Struct, array_like=True):
    """A metric as it is written down: its samples by name and labels."""

    name: str
    help: str
    type: str
    samples: dict[str, dict[str, float]]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(dict[str, Family])


class Totals(Collector):
    """The figures of this worker and of its neighbours in `folder`; without one, of this process alone."""

    def __init__(self, registry: CollectorRegistry, folder: Path | None) -> None:
        self._registry = registry
        self._folder = folder
        self._inherited: dict[str, Family] = {}
        if folder is not None:
            self._own = folder / f"{os.getpid()}"
            self._inherited = _inherit(folder, self._own)

    async def run(self) -> None:
        """Writes this worker's figures down, now and then."""
        while self._folder is not None:
            self._write()
            await asyncio.sleep(EVERY_S)

    def render(self) -> bytes:
        """All of them, in the Prometheus text format."""
        if self._folder is None:
            return generate_latest(self._registry)
        self._write()
        whole = CollectorRegistry()
        whole.register(self)
        return generate_latest(whole)

    def collect(self) -> Iterator[Metric]:
        assert self._folder is not None
        paths = sorted(self._folder.glob("[0-9]*"), key=lambda path: (path == self._own, path.name))
        found = [families for path in paths if (families := _read(path)) is not None]
        for family in merge(found).values():
            metric = Metric(family.name, family.help, family.type)
            for name, samples in family.samples.items():
                for labels, value in samples.items():
                    metric.add_sample(name, dict(msgspec.json.decode(labels, type=Labels)), value)
            yield metric

    def _write(self) -> None:
        beside = self._own.with_suffix(".new")
        try:
            beside.write_bytes(_encode(merge([self._inherited, _families(self._registry.collect())])))
            beside.rename(self._own)
        except OSError as error:
            log.warning("metrics are not shared with the other workers", error=error.strerror)


def merge(found: Iterable[dict[str, Family]]) -> dict[str, Family]:
    """The families of several processes as those of one: counters, histograms and most gauges are sums."""
    whole: dict[str, Family] = {}
    for families in found:
        for family in families.values():
            into = whole.setdefault(family.name, Family(family.name, family.help, family.type, {}))
            for name, samples in family.samples.items():
                values = into.samples.setdefault(name, {})
                for labels, value in samples.items():
                    values[labels] = _joined(family.name, values.get(labels, 0.0), value)
    return whole


def _joined(name: str, before: float, value: float) -> float:
    if name in OWN:
        return value
    return max(before, value) if name in LARGEST else before + value


def _families(metrics: Iterable[Metric]) -> dict[str, Family]:
    out = {}
    for metric in metrics:
        samples: dict[str, dict[str, float]] = {}
        for sample in metric.samples:
            if not sample.name.endswith("_created"):
                labels = msgspec.json.encode(list(sample.labels.items())).decode()
                samples.setdefault(sample.name, {})[labels] = float(sample.value)
        out[metric.name] = Family(metric.name, metric.documentation, metric.type, samples)
    return out


def _inherit(folder: Path, own: Path) -> dict[str, Family]:
    """The totals of a worker that has ended, for the one that takes its place; gauges end with their process."""
    for path in folder.glob("[0-9]*"):
        if path.suffix or _lives(int(path.name)):
            continue
        with contextlib.suppress(OSError):
            path.rename(own)  # of several heirs one gets it
            families = _read(own) or {}
            return {name: family for name, family in families.items() if family.type != "gauge"}
    return {}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: Path) -> dict[str, Family] | None:
    if path.suffix:
        return None
    try:
        families: Any = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    if not _lives(int(path.name)):
        return {name: family for name, family in families.items() if family.type != "gauge"}
    return dict(families)

"""What every process tells of itself, whatever its role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(slots=True, eq=False)
class Vitals(Collector):
    """The program's version and role, and whether Redis could be read for the last scrape."""

    role: str
    version: str
    redis_up: bool = False
    failed_scrapes: int = 0

    def scraped(self, *, redis_up: bool) -> None:
        """A scrape read Redis, or could not."""
        self.redis_up = redis_up
        self.failed_scrapes += not redis_up

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("gateway_build_info", "1, by version and role", labels=["version", "role"])
        build.add_metric([self.version, self.role], 1)
        yield build
        yield GaugeMetricFamily("gateway_redis_up", "1 if this scrape could read Redis", value=self.redis_up)
        yield CounterMetricFamily(
            "gateway_scrape_failures",
            "Scrapes that could not read Redis and were answered 503",
            value=self.failed_scrapes,
        )


def process_registry(*collectors: Collector) -> CollectorRegistry:
    """A registry of its own with these, and with the process's memory, CPU and files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return registry

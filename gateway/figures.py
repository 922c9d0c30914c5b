"""What Redis says of the whole installation, as metrics: the same ones from any of its processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.store import Inspection, Store
from gateway.store.targets import TargetState, inspect_targets


async def read_figures(store: Store, targets: Sequence[str]) -> bytes:
    """What Redis says now, in the Prometheus text format; raises StoreError."""
    figures = CollectorRegistry()
    figures.register(StoreFigures(await store.inspect(), await inspect_targets(store, targets)))
    return generate_latest(figures)


class StoreFigures(Collector):
    """One inspection of the store as metrics; any process of the installation shows the same ones."""

    def __init__(self, inspection: Inspection, targets: Mapping[str, TargetState]) -> None:
        self._inspection = inspection
        self._targets = targets

    def collect(self) -> Iterator[Metric]:
        yield from self._counters()
        yield from self._lanes()
        yield from self._target_states()
        it = self._inspection
        for name, text, value in (
            ("gateway_jobs_due", "Jobs that wait for their time: scheduled or retrying", it.due),
            ("gateway_jobs_running", "Jobs under a lease", it.running),
            ("gateway_jobs_dead", "Jobs in the dead-letter queue", it.dead),
            ("gateway_jobs_finished", "Succeeded and cancelled jobs that are still kept", it.finished),
            ("gateway_dispatchers", "Dispatchers alive", it.dispatchers),
            ("gateway_due_late_seconds", "How long the oldest due job has been due", it.late_ms / 1000),
        ):
            yield GaugeMetricFamily(name, text, value=value)

    def _counters(self) -> Iterator[Metric]:
        jobs = CounterMetricFamily(
            "gateway_jobs", "Transitions of jobs, since the data began", labels=["event", "lane", "target"]
        )
        slots = CounterMetricFamily(
            "gateway_schedule_slots", "Slots of schedules: fired, missed or overlapped", labels=["event", "schedule"]
        )
        for name, value in sorted(self._inspection.counters.items()):
            parts = name.split(":")
            if len(parts) == 3:
                jobs.add_metric(parts, value)
            elif len(parts) == 2:
                slots.add_metric([parts[0].removeprefix("schedule_"), parts[1]], value)
            else:
                yield CounterMetricFamily(f"gateway_{name}", "Counted by the scripts", value=value)
        yield jobs
        yield slots

    def _lanes(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("gateway_lane_depth", "Jobs that wait in a lane", labels=["lane"])
        oldest = GaugeMetricFamily(
            "gateway_lane_oldest_seconds", "How long a lane's first job has waited", labels=["lane"]
        )
        for lane, figures in self._inspection.lanes.items():
            depth.add_metric([lane], figures.pending)
            oldest.add_metric([lane], figures.waited_ms / 1000)
        yield depth
        yield oldest

    def _target_states(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("gateway_target_waiting", "Pending jobs of a target", labels=["target"])
        blocked = GaugeMetricFamily(
            "gateway_target_blocked", "1 while no job of a target may start", labels=["target", "reason"]
        )
        for target, state in self._targets.items():
            waiting.add_metric([target], sum(state.pending.values()))
            if state.blocked:
                blocked.add_metric([target, state.blocked], 1)
        yield waiting
        yield blocked

"""What Redis says of the whole installation, as metrics: the same ones from any of its processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.histograms import LABELS_MOST, OTHER
from gateway.jobs import CALLBACK_TARGET
from gateway.store import Inspection, Store
from gateway.store.targets import TargetState, inspect_targets

_CALLBACKS = {"submitted": "made", "succeeded": "delivered", "retried": "retried", "dead": "dead"}


async def read_figures(store: Store, targets: Sequence[str]) -> bytes:
    """What Redis says now, in the Prometheus text format; raises StoreError."""
    inspection = await store.inspect()
    shown = shown_targets(inspection.counters, targets)
    figures = CollectorRegistry()
    figures.register(StoreFigures(inspection, await inspect_targets(store, shown)))
    return generate_latest(figures)


def shown_targets(counters: Mapping[str, int], targets: Sequence[str]) -> list[str]:
    """The targets that have a label of their own: those with counters first, for these are the same everywhere."""
    counted = {parts[2] for name in counters if len(parts := name.split(":")) == 3} - {OTHER}
    ordered = [*sorted(counted & set(targets)), *(target for target in targets if target not in counted)]
    return ordered[:LABELS_MOST]


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
            ("gateway_outbox_depth", "Jobs on their way to another partition", it.posted),
            ("gateway_dispatchers", "Dispatchers alive", it.dispatchers),
            ("gateway_due_late_seconds", "How long the oldest due job has been due", it.late_ms / 1000),
            ("gateway_dead_oldest_seconds", "How long the longest dead job has been dead", it.dead_ms / 1000),
        ):
            yield GaugeMetricFamily(name, text, value=value)

    def _counters(self) -> Iterator[Metric]:
        jobs = CounterMetricFamily(
            "gateway_jobs", "Transitions of jobs, since the data began", labels=["event", "lane", "target"]
        )
        slots = CounterMetricFamily(
            "gateway_schedule_slots", "Slots of schedules: fired, missed or overlapped", labels=["event", "schedule"]
        )
        for labels, value in _by_name(self._inspection.counters, parts=3).items():
            jobs.add_metric(labels, value)
        for (event, schedule), value in _by_name(self._inspection.counters, parts=2).items():
            slots.add_metric([event.removeprefix("schedule_"), schedule], value)
        yield jobs
        yield slots
        yield _callbacks(self._inspection.counters)
        deaths = self._inspection.counters.get("dispatcher_deaths", 0)
        yield CounterMetricFamily("gateway_dispatcher_deaths", "Dispatchers that went without a goodbye", value=deaths)

    def _lanes(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("gateway_lane_depth", "Jobs that wait in a lane", labels=["lane"])
        oldest = GaugeMetricFamily(
            "gateway_lane_oldest_seconds",
            "How long the job of a lane has waited that has waited longest, also behind a limit or a pause",
            labels=["lane"],
        )
        jobs = GaugeMetricFamily("gateway_lane_jobs", "Jobs of a lane by their state", labels=["lane", "state"])
        paused = GaugeMetricFamily("gateway_lane_paused", "1 while no job of a lane may start", labels=["lane"])
        for lane, figures in self._inspection.lanes.items():
            depth.add_metric([lane], figures.pending)
            oldest.add_metric([lane], figures.waited_ms / 1000)
            paused.add_metric([lane], figures.paused)
            for state in ("pending", "scheduled", "retrying", "running", "dead"):
                jobs.add_metric([lane, state], getattr(figures, state))
        yield depth
        yield oldest
        yield paused
        yield jobs

    def _target_states(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("gateway_target_waiting", "Pending jobs of a target", labels=["target"])
        blocked = GaugeMetricFamily(
            "gateway_target_blocked", "1 while no job of a target may start", labels=["target", "reason"]
        )
        breaker = GaugeMetricFamily("gateway_breaker_open", "1 while a target's breaker is open", labels=["target"])
        shown = 0
        for target, state in self._targets.items():
            pending = sum(state.pending.values())
            shown += pending
            waiting.add_metric([target], pending)
            breaker.add_metric([target], state.blocked == "breaker")
            if state.blocked:
                blocked.add_metric([target, state.blocked], 1)
        others = sum(lane.pending for lane in self._inspection.lanes.values()) - shown
        waiting.add_metric([OTHER], max(0, others))
        yield waiting
        yield blocked
        yield breaker


def _by_name(counters: Mapping[str, int], *, parts: int) -> dict[tuple[str, ...], int]:
    """The counters whose names have so many parts, the last of which is a target or schedule: a bounded number of
    those have their own, the rest are `OTHER`."""
    found: dict[tuple[str, ...], int] = {}
    named = {OTHER}
    for name, value in sorted(counters.items()):
        labels = tuple(name.split(":"))
        if len(labels) != parts:
            continue
        if labels[-1] not in named and len(named) > LABELS_MOST:
            labels = (*labels[:-1], OTHER)
        named.add(labels[-1])
        found[labels] = found.get(labels, 0) + value
    return found


def _callbacks(counters: Mapping[str, int]) -> Metric:
    callbacks = CounterMetricFamily("gateway_callbacks", "Callbacks: made, delivered, retried, dead", labels=["event"])
    for counter, event in _CALLBACKS.items():
        of_lanes = (n for name, n in counters.items() if re.fullmatch(f"{counter}:[^:]+:{CALLBACK_TARGET}", name))
        callbacks.add_metric([event], sum(of_lanes))
    return callbacks

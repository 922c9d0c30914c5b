"""Labels stay bounded, whatever names, paths and headers come."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.api.metrics import REFUSALS
from gateway.figures import read_figures
from gateway.histograms import LABELS_MOST, OTHER, Counts, Histogram, Sums
from gateway.jobs import Submission
from gateway.verifier import REASONS
from tests.api.running import Running
from tests.observed import value

NAMES = 10_000


def labels_of(text: str, label: str) -> set[str]:
    return {
        sample.labels[label]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if label in sample.labels
    }


async def test_targets_have_bounded_labels_and_exact_totals_when_there_are_10000(api: Running) -> None:
    jobs = [Submission(api.store.new_id(1), f"target-{number}", b"{}") for number in range(NAMES)]
    await api.store.submit(jobs[:100])
    for _ in range(2):  # a repeat changes nothing
        for first in range(0, NAMES, 500):
            await api.store.submit(jobs[first : first + 500])
    await api.store.submit([Submission(api.store.new_id(1), job.target, b"{}") for job in jobs[-100:] + jobs[:100]])
    text = (await read_figures(api.store, [job.target for job in jobs])).decode()
    assert len(labels_of(text, "target")) <= LABELS_MOST + 1
    assert value(text, "gateway_jobs_total", event="submitted") == NAMES + 200
    for number in range(100):
        assert value(text, "gateway_jobs_total", event="submitted", target=f"target-{number}") == 2
    assert value(text, "gateway_jobs_total", event="submitted", target=OTHER) >= NAMES - LABELS_MOST
    assert value(text, "gateway_target_waiting") == NAMES + 200
    assert await api.store.client.hlen(f"{api.store.keyspaces[0].prefix}stats") <= LABELS_MOST + 1


async def test_requests_have_bounded_labels_whatever_their_paths_and_headers(api: Running) -> None:
    for number in range(20):
        hostile = {"x-evil": f"{number}\xff", "user-agent": '\\n"}', "traceparent": f"00-{number:032x}-1-01"}
        headers = {name.encode(): text.encode("latin-1") for name, text in hostile.items()}
        await api.client.get(f"/jobs/{number}%0A%22%7D", headers=headers)
        await api.client.request("PROPFIND", f"/no/such/{number}", headers=headers)
        await api.client.post(f"/hooks/trigger-{number}", content=b"{}", headers=headers)
        await api.client.post("/hooks/github", content=b"{}", headers={**headers, b"x-github-event": b"%d" % number})
    text = (await api.client.get("/metrics")).text
    assert labels_of(text, "route") == {"/jobs/{job_id}", "/hooks/{trigger}", "none"}
    assert labels_of(text, "trigger") == {"github"}
    assert labels_of(text, "status") == {"4xx"}
    assert labels_of(text, "reason") <= {*REASONS, *REFUSALS.values(), "other"}


@pytest.mark.parametrize("kind", [Counts, Histogram, Sums])
def test_process_metrics_count_what_comes_late_together(kind: Any) -> None:
    metric, registry = kind("gateway_x", "x", ["target"]), CollectorRegistry()
    observe = metric.add if kind is Counts else metric.observe
    for number in range(NAMES):
        observe(f"target-{number}", 1)
    registry.register(metric)
    text = generate_latest(registry).decode()
    assert len(labels_of(text, "target")) == LABELS_MOST + 1
    name = "gateway_x_total" if kind is Counts else "gateway_x_count"
    assert value(text, name) == NAMES
    assert value(text, name, target=OTHER) == NAMES - LABELS_MOST

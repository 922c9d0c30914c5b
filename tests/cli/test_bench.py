"""Measurements: several in one process, each on an event loop of its own, as `gateway bench all` makes them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from gateway.cli.bench import delayed
from tests.servers import Server


def test_measurements_follow_one_another_on_event_loops_of_their_own(valkey_server: Server) -> None:
    for _ in range(2):
        report = asyncio.run(delayed.measure(valkey_server.url, jobs=5, repetitions=1))
        assert [len(figure.values) for figure in report.figures] == [1, 1, 1, 1]


@pytest.mark.long
def test_all_measurements_are_made_by_one_command() -> None:
    command = (sys.executable, "-m", "gateway", "bench", "all", "--repetitions", "1", "--json")
    made = subprocess.run(command, capture_output=True, check=True, timeout=1800)
    reports = json.loads(made.stdout)
    assert len(reports) > 20
    assert all(value >= 0 for report in reports for figure in report["figures"] for value in figure["values"])

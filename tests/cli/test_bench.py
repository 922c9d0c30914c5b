"""Measurements: several in one process, each on an event loop of its own, as `gateway bench all` makes them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.bench import delayed, flood, hooks
from tests.processes import processes_of
from tests.servers import Server
from tests.waiting import until_sync


def test_measurements_follow_one_another_on_event_loops_of_their_own(valkey_server: Server) -> None:
    for _ in range(2):
        report = asyncio.run(delayed.measure(valkey_server.url, jobs=5, repetitions=1))
        assert [len(figure.values) for figure in report.figures] == [1, 1, 1, 1]


def test_deliveries_are_measured_over_as_many_connections_as_are_asked_for(valkey_server: Server) -> None:
    report = asyncio.run(hooks.measure(valkey_server.url, deliveries=100, repetitions=1, connections=3))
    assert "over 3 connections" in report.title
    assert [len(figure.values) for figure in report.figures] == [1, 1, 1, 1]


def test_flood_is_shown_by_the_submit_and_by_the_bare_loop_of_the_same_run(valkey_server: Server) -> None:
    report = asyncio.run(flood.measure(valkey_server.url, jobs=100, processes=1, repetitions=1))
    assert report.title.endswith("1 dispatcher process; the bare limit is the submit alone")
    values = {figure.name: figure.values[0] for figure in report.figures}
    limits = {figure.name: figure.limit for figure in report.figures}
    for slots in flood.SLOTS:
        assert limits[f"{slots} slots"] == (values["submit alone, 500 a call"],)
        by_loop = values[f"{slots} slots"] / values["bare claim + settle loop"]
        assert values[f"{slots} slots, by bare loop"] == pytest.approx(by_loop)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    ("sig", "measured"),
    [
        (signal.SIGTERM, ("hooks",)),
        (signal.SIGHUP, ("throughput", "--processes", "1", "--jobs", "5000")),
        (signal.SIGKILL, ("hooks",)),
        (signal.SIGKILL, ("throughput", "--processes", "1", "--jobs", "5000")),
    ],
)
def test_measurement_leaves_no_process_when_it_is_ended(
    sig: signal.Signals, measured: tuple[str, ...], tmp_path: Path
) -> None:
    command = (sys.executable, "-P", "-m", "gateway", "bench", *measured)
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        try:
            until_sync(lambda: len(at_work(tmp_path)) == (3 if measured[0] == "hooks" else 2))
            bench.send_signal(sig)
            printed = bench.communicate(timeout=30)
        finally:
            bench.kill()
    until_sync(lambda: not processes_of(tmp_path))
    if sig != signal.SIGKILL:
        assert (bench.returncode, "Traceback" in printed[1]) == (130, False)
        assert list(tmp_path.iterdir()) == []


def at_work(folder: Path) -> list[str]:
    """The servers that a measurement has started, and its dispatcher."""
    return [
        each for each in processes_of(folder) if "valkey-server" in each or "spawn_main" in each or "dispatch" in each
    ]


@pytest.mark.long
def test_all_measurements_are_made_by_one_command() -> None:
    command = (sys.executable, "-m", "gateway", "bench", "all", "--repetitions", "1", "--json")
    made = subprocess.run(command, capture_output=True, check=True, timeout=1800)
    reports = json.loads(made.stdout)
    assert len(reports) > 20
    assert all(value >= 0 for report in reports for figure in report["figures"] for value in figure["values"])

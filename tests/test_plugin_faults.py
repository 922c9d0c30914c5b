"""Plugins that cannot be used: one message that names the plugin and the place, exit code 78, and a list of all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import installation as installation
from tests.e2e.installation import Installation

pytestmark = pytest.mark.long

PRINTER = """
import msgspec
from gateway import Executor, Result, hookimpl

class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tray: int

class Printer(Executor[Config]):
    name = "printer"
    Config = Config
    async def execute(self, attempt): return Result(attempt.config.tray)

@hookimpl
def register_executors(): return [Printer()]
"""
FAULTS = {
    "twice": (PRINTER, 'plugin twice: offers the executor "printer", which plugin printer offers already'),
    "misspelt": (
        "from gateway import hookimpl\n@hookimpl\ndef job_events(event): ...",
        'plugin misspelt: there is no hook "job_events"; did you mean "job_event"?',
    ),
    "absent": ("import no_such_module", "plugin absent: cannot be imported: ModuleNotFoundError: No module named 'no_"),
    "wide": (
        PRINTER.replace('"printer"', '"wide"').replace("tray: int", "tray: object\n    timeout: int"),
        'plugin wide: Printer.Config has the field "timeout", which is taken; rename it',
    ),
    "later": (
        PRINTER + "\nGATEWAY_PLUGIN_API = 99",
        "plugin later: was written for plugin API 99, and this gateway has 1",
    ),
    "raising": (
        "from gateway import hookimpl\n@hookimpl\ndef register_executors(): raise OSError('no printer')",
        "plugin raising: register_executors failed: OSError: no printer",
    ),
    "leaving": (
        "from gateway import hookimpl\n@hookimpl\ndef register_executors(): raise SystemExit(4)",
        "plugin leaving: register_executors failed: SystemExit: 4",
    ),
    "single": (
        PRINTER.replace('"printer"', '"single"').replace("[Printer()]", "Printer()"),
        "plugin single: register_executors returned Printer; it must return a list",
    ),
    "waiting": (
        "import msgspec\nfrom gateway import Delivery, Verifier, hookimpl\n"
        "class Slow(Verifier[msgspec.Struct]):\n    name, Config = 'slow', msgspec.Struct\n"
        "    async def verify(self, request, now): return Delivery('1')\n"
        "@hookimpl\ndef register_verifiers(): return [Slow]",
        "plugin waiting: Slow.verify is async; make it `def verify`",
    ),
    "eager": (
        "from gateway import hookimpl\n@hookimpl\nasync def job_event(event): ...",
        "plugin eager: job_event is an async",
    ),
}


def gateway(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("GATEWAY_")}
    command = [sys.executable, "-P", "-m", "gateway", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "printer.py").write_text(PRINTER)
    for name, (text, _) in FAULTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", ["twice", "absent"])
def test_fault_of_a_plugin_stops_the_start_with_one_line_and_its_code(folder: Path, name: str) -> None:
    (folder / "gateway.toml").write_text(f'plugins = ["printer", "{name}"]')
    done = gateway(folder, "up")
    assert done.returncode == os.EX_CONFIG
    assert done.stderr.startswith(f"gateway: {FAULTS[name][1]}")
    assert done.stderr.count("\n") == 1


def test_listing_shows_every_fault_beside_what_can_be_used(folder: Path) -> None:
    (folder / "gateway.toml").write_text(f"plugins = {json.dumps(['printer', *FAULTS])}")
    done = gateway(folder, "plugins", "--json")
    assert done.returncode == os.EX_CONFIG
    listing = json.loads(done.stdout)
    told = {fault["name"]: f"plugin {fault['name']}: {fault['error']}" for fault in listing["failed"]}
    assert set(told) == set(FAULTS)
    for name, (_, message) in FAULTS.items():
        assert told[name].startswith(message), told[name]
    loaded = {plugin["name"]: plugin for plugin in listing["plugins"]}
    assert loaded["printer"]["executors"] == ["printer"]
    assert loaded["printer"]["path"] == str(folder / "printer.py")
    assert "executors.command" in loaded


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('tray = "two"', "gateway.toml: targets.label.tray: expected int, got str"),
        ("tray = 1\ntrai = 2", 'gateway.toml: targets.label: unknown key "trai"; did you mean "tray"?'),
    ],
)
def test_config_that_does_not_fit_a_plugins_model_names_its_place(folder: Path, table: str, message: str) -> None:
    (folder / "gateway.toml").write_text(f'plugins = ["printer"]\n[targets.label]\nexecutor = "printer"\n{table}')
    done = gateway(folder, "config", "check")
    assert (done.returncode, done.stderr.count("\n")) == (os.EX_CONFIG, 1)
    assert message in done.stderr


def test_raising_listener_is_named_and_neither_jobs_nor_other_listeners_suffer(installation: Installation) -> None:
    raising = "from gateway import hookimpl\n@hookimpl\ndef job_event(event): raise OSError('no network')"
    noting = "from gateway import hookimpl\nimport tasks\n@hookimpl\ndef job_event(event): tasks.note(event.type)"
    installation.add_module("raising", raising)
    installation.add_module("noting", noting)
    installation.configure()
    config = installation.folder / "gateway.toml"
    config.write_text('plugins = ["raising", "noting"]\n' + config.read_text())
    process = installation.up()
    record = installation.ended(installation.submit("work", {"s": 0}))
    assert record["status"] == "succeeded"
    process.stop()
    assert {line[0] for line in installation.lines()} >= {"accepted", "started", "succeeded"}
    lines = process.lines("plugin hook failed")
    assert {(line["plugin"], line["hook"]) for line in lines} == {("raising", "job_event")}
    assert all("raising.py" in line["exception"] and "OSError: no network" in line["exception"] for line in lines)

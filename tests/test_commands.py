"""What the commands that look at the configuration print, as someone reads it in a terminal of 80 columns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec

from gateway import __version__
from gateway.opening import make_store
from gateway.schedules import Schedule
from gateway.settings import load
from gateway.store.schedules import pause_schedule, put_schedule
from tests.cli.shell import Done, Shell, environment
from tests.servers import Server

GOOD = """
[targets.resize]
executor = "python"
callable = "json:dumps"

[schedules.nightly]
cron = "30 2 * * MON-FRI"
timezone = "Europe/Berlin"
target = "resize"
"""
BAD = """
[targets.resize]
executor = "pithon"

[targets.invoice]
executor = "python"
callable = "no_such_module:f"

[targets.mail]
executor = "python"
callable = "json:dumps"

[triggers.hub]
verifier = "github"
secrets = ["s"]
[[triggers.hub.routes]]
target = "resize"
[[triggers.hub.routes]]
target = "resise"

[schedules.early]
cron = "61 * * * *"
target = "mail"

[schedules.late]
cron = "@daily"
target = "resize"
"""
HOOKS = """
from gateway import hookimpl

@hookimpl
def job_event(event):
    pass

@hookimpl
def retry_delay(job, failure):
    return None
"""
UNSIGNED = """
import msgspec
from gateway import Delivery, Verifier, hookimpl

class Config(msgspec.Struct):
    pass

class Till(Verifier[Config]):
    name, Config = "till", Config

    def verify(self, request, now):
        return Delivery(None)

@hookimpl
def register_verifiers():
    return [Till]
"""


def gateway(folder: Path, *arguments: str, **environ: str) -> Done:
    return Shell(folder, **environ).run(*arguments)


def test_version_is_a_flag_and_a_command(tmp_path: Path) -> None:
    for asked in ("--version", "version"):
        command = [sys.executable, "-m", "gateway", asked]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


def test_config_check_counts_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(GOOD)
    done = gateway(tmp_path, "config", "check")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == "gateway.toml: 1 target, 0 triggers, 1 schedule, all well\n"


def test_config_check_tells_every_fault_and_none_that_follows_from_another(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(BAD)
    done = gateway(tmp_path, "config", "check")
    assert (done.code, done.stdout) == (os.EX_CONFIG, "")
    places = re.findall(r"^gateway: gateway\.toml: ([\w.\[\]]+): ", done.stderr, re.MULTILINE)
    assert len(done.stderr.splitlines()) == len(places)
    assert places == [
        "targets.resize.executor",
        "targets.invoice",
        "triggers.hub.routes[1].target",
        "schedules.early.cron",
    ]


def test_a_file_that_cannot_be_read_is_told_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("plugins = 3")
    done = gateway(tmp_path, "config", "check")
    assert (done.code, done.stdout) == (os.EX_CONFIG, "")
    assert done.stderr.startswith("gateway: gateway.toml: plugins: expected")


def test_plugins_fit_a_terminal_and_are_not_cut(tmp_path: Path) -> None:
    (tmp_path / "listener.py").write_text(HOOKS)
    (tmp_path / "gateway.toml").write_text('plugins = ["listener"]')
    shown = gateway(tmp_path, "plugins").stdout
    assert max(map(len, shown.splitlines())) <= 80
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines() if line.strip()]
    assert ["executors.command", "built-in", __version__, "executor command"] in rows
    assert [(row[0], row[-1]) for row in rows][-1] == ("listener", "hooks retry_delay, job_event")
    assert "register_" not in shown


def test_fault_of_a_plugin_is_shown_as_it_is_and_steers_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "listener.py").write_text('raise RuntimeError("no [egress] \\x1b[2J")')
    (tmp_path / "gateway.toml").write_text('plugins = ["listener"]')
    done = gateway(tmp_path, "plugins")
    assert done.code == os.EX_CONFIG
    assert "no [egress] \\x1b[2J" in " ".join(done.stdout.split())


def test_verifier_of_a_plugin_that_cannot_sign_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "till.py").write_text(UNSIGNED)
    target = '[targets.t]\nexecutor = "python"\ncallable = "json:dumps"\n'
    trigger = '[triggers.shop]\nverifier = "till"\n[[triggers.shop.routes]]\ntarget = "t"\n'
    (tmp_path / "gateway.toml").write_text(f'plugins = ["till"]\n{target}{trigger}')
    (tmp_path / "sale.json").write_text("{}")
    done = gateway(tmp_path, "triggers", "test", "shop", "--file", "sale.json")
    assert done.code == os.EX_CONFIG
    assert (
        done.stderr == "gateway: trigger shop: its verifier till cannot sign; give the plugin's class a method sign\n"
    )


async def test_schedules_fit_a_terminal_and_are_not_cut(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    environ = {"GATEWAY_REDIS_URL": valkey_server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    nightly = Schedule(name="nightly-report", cron="30 2 1 1 *", timezone="Europe/Berlin", target="report-all")
    store = make_store(load(environ, tmp_path), valkey_server.url)
    try:
        await store.configure()
        await put_schedule(store, nightly)
        await put_schedule(store, msgspec.structs.replace(nightly, name="rest", timezone="UTC"))
        await pause_schedule(store, "rest")
    finally:
        await store.aclose()
    done = gateway(tmp_path, "schedules", "list", **environ)
    assert done.code == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    row = r" nightly-report +30 2 1 1 \* +report-all +\d{4}-01-01 01:30:00Z +active"
    at = next(at for at, line in enumerate(lines) if re.fullmatch(row, line))
    assert lines[at + 1].split() == ["Europe/Berlin"]
    assert lines[at + 2].split() == ["rest", "30", "2", "1", "1", "*", "report-all", "paused"]


def test_interrupt_while_a_command_is_still_imported_ends_it_without_a_word(tmp_path: Path) -> None:
    decoy = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit('not interrupted')\n"
    (tmp_path / "typer.py").write_text(decoy)
    command = (sys.executable, "-m", "gateway", "stats")
    environ = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

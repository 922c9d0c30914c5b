"""Dockerfile, compose files, Procfile and units say what the program understands, and all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gateway import health
from gateway.api.operations import OPERATIONS
from gateway.cli import app
from gateway.settings import Settings, load
from gateway.supervisor import Patience
from tests.deploy import terraform
from tests.deploy.programs import Program, from_compose, from_dockerfile, from_procfile, from_systemd, programs
from tests.documents import ROOT

ON_AWS = [*terraform.programs(terraform.read(terraform.MODULE), **terraform.GIVEN)]
PROGRAMS = [*programs(), *ON_AWS]


def settings_of(program: Program) -> Settings:
    """What the program would run with, there; ConfigError on a variable that it does not know."""
    return load(program.environment, ROOT / "deploy" / "app")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_command_is_one_of_ours_with_its_options(program: Program) -> None:
    name, *arguments = program.command
    assert name == "gateway"
    context = typer.main.get_command(app).make_context(name, [*arguments, "--help"], resilient_parsing=True)
    assert context is not None
    done = CliRunner().invoke(app, [*arguments, "--help"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_variables_are_understood_and_fit_the_program(program: Program) -> None:
    unknown = [name for name in program.environment if not name.startswith(("GATEWAY_", "OTEL_", "PORT"))]
    assert unknown == []
    settings_of(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_ports_and_addresses_are_those_that_the_program_listens_on(program: Program) -> None:
    own = settings_of(program).gateway
    mine = {"gateway": own.port, "dispatcher": own.dispatcher_port}
    if program.source == "Dockerfile":
        assert set(program.ports) == set(mine.values())
    else:
        assert set(program.ports) <= {mine[program.role]}
    if program.ports and program.role == "gateway":
        assert own.host == "0.0.0.0", "a published port that nothing listens on"


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.health], ids=str)
def test_health_check_asks_what_the_program_answers(program: Program) -> None:
    *python, name = program.health[:3]
    assert (python, name) == (["python", "-m"], health.__name__)
    assert list(program.health[3:]) in ([], [program.role], [program.role, "--live"])
    assert {"/livez", "/readyz"} <= {each.path for each in OPERATIONS}


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_stop_is_the_signal_that_drains_and_leaves_time_for_it(program: Program) -> None:
    assert program.stop_signal == "SIGTERM"
    if program.stop_s is not None:
        assert program.stop_s > max(float(settings_of(program).gateway.drain), Patience().drain_s) + 2


def test_every_place_runs_both_roles() -> None:
    compose = from_compose("", (ROOT / "docker-compose.yml",))
    for found in (from_dockerfile(), from_procfile(), from_systemd(), compose, ON_AWS):
        assert sorted(program.role for program in found) == ["dispatcher", "gateway"]


@pytest.mark.parametrize("place", ["deploy/app"])
def test_example_of_the_compose_files_is_well(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / place)
    monkeypatch.syspath_prepend(Path.cwd())
    done = CliRunner().invoke(app, ["config", "check"])
    assert done.exit_code == 0, done.output

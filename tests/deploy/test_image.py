"""The image: what hadolint says, and what it must hold beside."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.deploy.dockerfile import read_stages
from tests.documents import ROOT

DOCKERFILE = ROOT / "Dockerfile"
STAGES = read_stages(DOCKERFILE)
BUILD, FINAL = STAGES


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(DOCKERFILE)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_image_runs_as_a_user_without_rights_whose_id_is_a_number() -> None:
    """Kubernetes' `runAsNonRoot` can tell from a number only."""
    user, group = FINAL.only("USER").rest.split(":")
    assert int(user) >= 10000
    assert int(group) >= 10000
    after = FINAL.instructions[FINAL.instructions.index(FINAL.only("USER")) :]
    assert not [each for each in after if each.name in ("RUN", "COPY", "ADD")]


def test_image_keeps_nothing_that_it_was_built_with() -> None:
    assert [each.rest.split() for each in FINAL.all("COPY")] == [["--from=build", "/opt/gateway", "/opt/gateway"]]
    assert not FINAL.all("ADD")
    (made,) = FINAL.all("RUN")
    assert "pip uninstall" in made.rest
    assert "apt-get" not in DOCKERFILE.read_text()
    assert "--without-pip /opt/gateway" in BUILD.all("RUN")[0].rest
    assert BUILD.image == FINAL.image == "python:${PYTHON}"
    assert re.search(r"^ARG PYTHON=3\.\d+-slim-\w+$", DOCKERFILE.read_text(), re.MULTILINE)


def test_secrets_are_no_part_of_the_image() -> None:
    words = {name for stage in STAGES for name in stage.environment} | {each.rest for each in BUILD.all("ARG")}
    assert not [word for word in words if re.search("KEY|SECRET|TOKEN|PASSWORD|URL", word)]


@pytest.mark.parametrize("part", ["executors", "gateway", "lua", "plugins"])
def test_every_part_of_the_wheel_is_copied_and_let_in(part: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert part in project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert [part, part] in [each.words for each in BUILD.all("COPY")]
    assert f"!{part}" in ignored()


def test_what_the_build_needs_is_let_in_and_all_else_stays_out() -> None:
    lines = ignored()
    assert lines[0] == "*"
    copied = [word for each in BUILD.all("COPY") for word in each.words[:-1]]
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied)
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"]} <= set(copied)


def ignored() -> list[str]:
    return [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]

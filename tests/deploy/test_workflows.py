"""The public CI: of its schemas, with what zizmor says, and of the checks that there are."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import ROOT

GITHUB = ROOT / ".github"
BIN = Path(sys.executable).parent


def run(*command: str) -> None:
    done = subprocess.run([str(BIN / command[0]), *command[1:]], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", "workflows/*.yml"),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml"),
        ("vendor.dependabot", "dependabot.yml"),
    ],
)
def test_file_is_of_its_schema(schema: str, pattern: str) -> None:
    files = sorted(map(str, GITHUB.glob(pattern)))
    assert files
    run("check-jsonschema", "--builtin-schema", schema, *files)


def test_zizmor_finds_no_hole() -> None:
    run("zizmor", "--offline", "--quiet", str(GITHUB))


def steps(name: str) -> list[dict[str, Any]]:
    jobs = yaml.safe_load((GITHUB / "workflows" / name).read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_public_checks_are_those_of_a_change() -> None:
    """What `.ci/run` runs on every change, runs in public too."""
    commands = [step.get("run", "") for step in steps("ci.yml")]
    for own in re.findall(r'^check \w+ ".venv/bin/(.*)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE):
        assert own in commands
    assert any(command.startswith("pytest") for command in commands)


def test_tests_run_on_every_python_that_the_package_names() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())["jobs"]
    tested = jobs["tests"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tested[0] == project["requires-python"].removeprefix(">=")
    assert tested == re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))


def test_release_attests_what_it_publishes() -> None:
    found = steps("release.yml")
    assert [step["with"] for step in found if "attest-build-provenance" in step.get("uses", "")] == [
        {"subject-path": "dist/*"},
        {
            "subject-name": "ghcr.io/${{ github.repository }}",
            "subject-digest": "${{ steps.push.outputs.digest }}",
            "push-to-registry": True,
        },
    ]
    assert [step for step in found if "python -m tests.distribution" in step.get("run", "")]


def test_hooks_before_a_commit_run_tools_that_the_dev_extra_brings() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    extra = " ".join(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"])
    for hook in config["repos"][0]["hooks"]:
        assert hook["entry"].split()[0] in extra

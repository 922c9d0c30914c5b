"""A user's program under the strict type checkers: what is right passes, and what is wrong is found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).with_name("sample")
ROOT = SAMPLE.parent.parent.parent
TIMEOUT_S = 240


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S
    )


def wrong_lines() -> list[int]:
    lines = (SAMPLE / "mistakes.py").read_text().splitlines()
    return [at for at, line in enumerate(lines, 1) if line.endswith("# wrong")]


def test_mypy_passes_the_program_and_finds_the_mistakes() -> None:
    done = run("mypy", "--strict", str(SAMPLE / "program.py"), str(SAMPLE / "mistakes.py"))
    found = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE)
    assert {Path(file).name for file, _ in found} == {"mistakes.py"}, done.stdout
    assert sorted({int(line) for _, line in found}) == wrong_lines()


def test_pyright_passes_the_program_and_finds_the_mistakes() -> None:
    if run("pyright", "--version").returncode:
        pytest.skip("pyright cannot be set up here: it fetches its program with the first call")
    done = run("pyright", "--outputjson", "--pythonpath", sys.executable, "--level", "error", "-p", str(SAMPLE))
    report = json.loads(done.stdout)
    found = [(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in report["generalDiagnostics"]]
    assert {file for file, _ in found} == {"mistakes.py"}, done.stdout
    assert sorted({line for _, line in found}) == wrong_lines()

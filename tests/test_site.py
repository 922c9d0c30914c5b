"""The documentation's site: it builds without a warning, and its generated pages name all there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gateway.api.operations import DELIVERY_METHODS, OPERATIONS
from gateway.cli import app
from tests.documents import ROOT

ENVIRON = os.environ | {"NO_MKDOCS_2_WARNING": "1"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    # not --quiet: it silences the warnings that --strict counts
    done = subprocess.run(command, cwd=ROOT, env=ENVIRON, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]+>", "", page.read_text())


def test_site_has_a_page_for_every_document(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= {page.name for page in site.iterdir()}
    assert (site / "index.html").exists()


def test_reference_of_the_api_names_every_operation(site: Path) -> None:
    text = text_of(site / "reference-http" / "index.html")
    for operation in OPERATIONS:
        for method in DELIVERY_METHODS if operation.method == "*" else (operation.method,):
            assert f"{method} {operation.path}" in text


def test_reference_of_the_commands_names_every_one(site: Path) -> None:
    text = text_of(site / "reference-cli" / "index.html")
    for name in names(typer.main.get_command(app), "gateway"):
        assert name in text


def names(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name
    for child, each in (children or {}).items():
        yield from names(each, f"{name} {child}")

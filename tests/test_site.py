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

from gateway.api.operations import DELIVERY_METHODS, OPERATIONS
from gateway.cli.subcommands import SUBCOMMANDS, load
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


def test_reference_of_the_commands_has_every_one_with_its_options(site: Path) -> None:
    sections = dict(
        re.findall(r"<h2[^>]*><code>(gateway[^<]*)</code>(.*?)(?=<h2|</article>)", page_of_commands(site), re.S)
    )
    expected = {name: command for top in SUBCOMMANDS for name, command in leaves(load(top), f"gateway {top}")}
    assert len(expected) > 40
    assert set(expected) <= set(sections)
    for name, command in expected.items():
        for option in (each for parameter in command.params for each in parameter.opts if each.startswith("--")):
            assert option in sections[name], f"{name} {option}"


def page_of_commands(site: Path) -> str:
    return (site / "reference-cli" / "index.html").read_text()


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
    for child, each in (children or {}).items():
        if not each.hidden:
            yield from leaves(each, f"{name} {child}")

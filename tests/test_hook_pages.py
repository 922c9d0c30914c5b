"""The pages of hooks: what a page shows is a plugin as it stands, each example alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.registry import Registry
from gateway.settings import load
from tests.documents import ROOT, Block, blocks

MODULE = "shop_plugin"
PAGES = sorted((ROOT / "docs" / "hooks").glob("*.md"))
EXAMPLES = [
    (page, block)
    for page in PAGES
    for block in blocks(page)
    if block.language == "python" and "@hookimpl" in block.text
]


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    """Each example is a module of the same name, in a folder of its own."""
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(("page", "block"), EXAMPLES, ids=[page.stem for page, _ in EXAMPLES])
def test_example_of_a_hook_is_a_plugin_as_pasted(page: Path, block: Block, tmp_path: Path) -> None:
    (tmp_path / block.title).write_text(block.text)
    (named,) = (each.text for each in blocks(page) if each.title == "gateway.toml, at its top")
    (tmp_path / "gateway.toml").write_text(named)
    loaded = Registry.build(load({}, tmp_path)).plugins[-1]
    assert (loaded.name, loaded.hooks) == (MODULE, (page.stem.replace("-", "_"),))


def test_verifier_of_its_page_passes_the_suite_as_the_page_has_it(tmp_path: Path) -> None:
    files = {block.title: block.text for block in blocks(ROOT / "docs" / "hooks" / "register-verifiers.md")}
    for name in (f"{MODULE}.py", f"test_{MODULE}.py"):
        (tmp_path / name).write_text(files[name])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_every_page_of_a_hook_has_an_example() -> None:
    assert {page for page, _ in EXAMPLES} == set(PAGES)

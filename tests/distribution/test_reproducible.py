"""Two builds of one source are the same bytes, wherever, whenever and by whomever they are made."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.distribution.building import ROOT, build, copy_tree

pytestmark = pytest.mark.long


def test_wheel_and_sdist_are_the_same_bytes_wherever_they_are_built(tmp_path: Path) -> None:
    one = build(copy_tree(tmp_path / "one", mtime=1_000_000_000), tmp_path / "a")
    two = build(copy_tree(tmp_path / "elsewhere" / "two", mtime=1_600_000_000), tmp_path / "b", umask=0o077)
    assert one == two
    assert len(one) == 2
    (sdist,) = (tmp_path / "a").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Dockerfile", "docker-compose.yml", "Procfile", "tests/conftest.py", "terraform/README.md"} <= names
    assert not [name for name in names if "__pycache__" in name or ".terraform" in name]
    assert (ROOT / "pyproject.toml").exists()

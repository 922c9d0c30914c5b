"""Builds wheel and sdist; only the standard library is imported, so that it runs where nothing else is installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
IGNORED = shutil.ignore_patterns(".git", ".venv", ".gateway", ".*_cache", ".hypothesis", "__pycache__", "dist", "site")
BUILD_TIMEOUT_S = 300
DEMO_TIMEOUT_S = 300


def copy_tree(to: Path, *, mtime: int) -> Path:
    """The checkout at another place, with other times."""
    shutil.copytree(ROOT, to, ignore=IGNORED)
    for path in to.rglob("*"):
        os.utime(path, (mtime, mtime))
    return to


def build(tree: Path, out: Path, *, umask: int = 0o022) -> dict[str, str]:
    """The SHA-256 of what was built, by the files' names."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, umask=umask)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(out.iterdir())}


def play_demo(wheel: Path, python: str, folder: Path) -> str:
    """What `gateway demo` prints, from the wheel, in an empty environment of this interpreter."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "GATEWAY_", "REDIS_"))}
    home = folder / "venv"
    for command in (
        [python, "-m", "venv", str(home)],
        [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", str(wheel)],
        [str(home / "bin" / "gateway"), "demo"],
    ):
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=DEMO_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"{command}:\n{done.stdout}{done.stderr}")
    return done.stdout

"""Installs peers into a folder: a virtual environment of its own for each of Python's, `node_modules` for npm's."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.peers.peer import Peer

_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Installed:
    """Where a peer is: the folder of its commands, and its version."""

    peer: Peer
    folder: Path
    python: Path
    version: str

    def command(self, *words: str) -> list[str]:
        """Those words, the first one found where the peer is."""
        own = self.python.parent / words[0]
        return [str(own) if own.exists() else words[0], *words[1:]]


def install(peer: Peer, folder: Path) -> Installed:
    """The peer, installed unless the folder has it already; raises CalledProcessError where that fails."""
    if peer.npm:
        return _npm(peer, folder / "node")
    if not peer.packages:
        return Installed(peer, folder, Path(sys.executable), _version(Path(sys.executable), peer))
    place = folder / peer.program.removesuffix(".py")
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        _run([sys.executable, "-m", "venv", str(place)])
        _run([str(python), "-m", "pip", "install", "--quiet", *peer.packages])
        (place / "installed").touch()
    return Installed(peer, place, python, _version(python, peer))


def _npm(peer: Peer, place: Path) -> Installed:
    place.mkdir(parents=True, exist_ok=True)
    manifest = place / "node_modules" / peer.distribution / "package.json"
    if not manifest.exists():
        _run(["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(place), *peer.packages])
    version = json.loads(manifest.read_text())["version"]
    return Installed(peer, place, place / "python", f"{version}, Node.js {_run(['node', '--version']).strip()}")


def _version(python: Path, peer: Peer) -> str:
    code = f"import importlib.metadata as m; print(m.version({peer.distribution!r}))"
    return _run([str(python), "-c", code]).strip()


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout

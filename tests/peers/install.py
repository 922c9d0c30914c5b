"""Installs peers into a folder.

Each of Python's has a virtual environment of its own, npm's share a `node_modules`, and Debian's lie unpacked beside
all that they need, down to the C library.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.peers.peer import Peer, Source

_TIMEOUT_S = 300.0
SUITE = "deb http://deb.debian.org/debian sid main\n"


@dataclass(frozen=True, slots=True)
class Installed:
    """Where a peer is: the folder of its packages, what runs its program, and its version."""

    peer: Peer
    folder: Path
    interpreter: Path
    version: str

    def command(self, *words: str) -> list[str]:
        """Those words, the first one found where the peer is."""
        own = self.interpreter.parent / words[0]
        return [str(own) if own.exists() else words[0], *words[1:]]


def install(peer: Peer, folder: Path) -> Installed:
    """The peer, installed unless the folder has it already; raises CalledProcessError where that fails."""
    if peer.source is Source.NPM:
        return _npm(peer, folder / "node")
    if peer.source is Source.DEBIAN:
        return _debian(peer, folder / "debian")
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
    node = Path(shutil.which("node") or "node")
    return Installed(peer, place, node, f"{version}, Node.js {_run(['node', '--version']).strip().removeprefix('v')}")


def _debian(peer: Peer, place: Path) -> Installed:
    """Ruby and its gems, by an apt that knows nothing of what this machine has and needs no root."""
    ruby = place / "bin" / "ruby"
    if not (place / "installed").exists():
        apt = place / "apt"
        for each in ("lists/partial", "archives/partial"):
            (apt / each).mkdir(parents=True, exist_ok=True)
        (apt / "status").touch()
        (apt / "sources.list").write_text(SUITE)
        where = {"Etc::sourcelist": "sources.list", "State": "", "State::status": "status", "Cache": ""}
        options = [f"-oDir::{name}={apt / path}" for name, path in where.items()]
        options += ["-oDir::Etc::sourceparts=/dev/null", "-oAPT::Sandbox::User="]
        _run(["apt-get", *options, "-qq", "update"])
        _run(["apt-get", *options, "-qq", "-y", "-d", "--no-install-recommends", "install", *peer.packages])
        for package in sorted((apt / "archives").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(place)])
        _write_launcher(ruby, place / "usr")
        (place / "installed").touch()
    said = _run([str(ruby), "-r", peer.distribution.removeprefix("ruby-"), "-e", _RUBY_VERSIONS])
    return Installed(peer, place, ruby, said.strip())


_RUBY_VERSIONS = 'print Sidekiq::VERSION, ", Ruby ", RUBY_VERSION'


def _write_launcher(ruby: Path, usr: Path) -> None:
    """A command that runs the unpacked Ruby by the C library that came with it."""
    system = next(usr.glob("lib/*-linux-gnu"))
    libraries = [usr / "lib/ruby/vendor_ruby", *usr.glob("lib/ruby/3.*"), *system.glob("ruby/3.*")]
    gems = [usr / "share/rubygems-integration/all", *system.glob("rubygems-integration/3.*")]
    gems += usr.glob("lib/ruby/gems/3.*")
    ruby.parent.mkdir(exist_ok=True)
    ruby.write_text(
        "#!/bin/sh\n"
        f"export RUBYLIB={':'.join(map(str, libraries))} GEM_PATH={':'.join(map(str, gems))} RUBYPATH={usr / 'bin'}\n"
        f'exec {next(usr.glob("lib*/ld-linux*.so.*"))} --library-path {system} {next(usr.glob("bin/ruby3.*"))} "$@"\n'
    )
    ruby.chmod(0o755)


def _version(python: Path, peer: Peer) -> str:
    code = f"import importlib.metadata as m; print(m.version({peer.distribution!r}))"
    return _run([str(python), "-c", code]).strip()


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout

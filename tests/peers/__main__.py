"""`python -m tests.peers [--peers A,B] [--rounds 5] [--folder DIR] [--write FILE]`: the same no-op jobs on each peer.

Installs what is missing into the folder (npm and a package index are needed), measures one peer after the other, so
many rounds of it, on one server, and prints a table of medians.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from gateway.cli.bench import machine
from tests.peers.install import Installed, install
from tests.peers.measure import Round, measure
from tests.peers.peer import PEERS
from tests.peers.table import rows, settings
from tests.servers import Server

BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"


def main() -> int:
    """1 where a peer could not be installed or measured; the others are shown all the same."""
    given = _arguments()
    wanted = [peer for peer in PEERS if not given.peers or peer.name.lower() in given.peers.lower().split(",")]
    failed = 0
    installed: list[Installed] = []
    with tempfile.TemporaryDirectory(prefix="gw-peers-") as temporary, Server(tcp=True) as server:
        for peer in wanted:
            try:
                installed.append(install(peer, (given.folder or Path(temporary)).resolve()))
            except Exception as error:  # one that cannot be had is no reason not to measure the others
                print(f"{peer.name} cannot be installed: {error}", flush=True)
                failed = 1
        found: dict[str, list[Round]] = {it.peer.name: [] for it in installed}
        for number in range(given.rounds):
            for it in installed:
                try:
                    found[it.peer.name].append(_round(it, server, Path(temporary)))
                    print(f"round {number + 1}: {it.peer.name} {found[it.peer.name][-1]}", flush=True)
                except Exception as error:
                    print(f"round {number + 1}: {error}", flush=True)
                    failed = 1
        text = f"{asyncio.run(machine.describe(server.url))}\n\n{rows(found)}\n\n{settings(installed)}\n"
    print(text)
    if given.write:
        before, _, rest = given.write.read_text().partition(BEGIN)
        given.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return failed


def _round(it: Installed, server: Server, temporary: Path) -> Round:
    with tempfile.TemporaryDirectory(dir=temporary) as folder, server.client() as client:
        client.flushall()
        return measure(it, server, Path(folder))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default="", help="their names, with commas between; default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to install them, and to find them again")
    parser.add_argument("--write", type=Path, help="the page to put the tables into")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())

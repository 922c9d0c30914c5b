"""`python -m tests.faults.mutations`: does the suite notice when a guarantee is switched off? One at a time, in a copy.

Prints a line for each; ends with 1 if one of them went unnoticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ("gateway", "executors", "plugins", "lua", "tests", "docs", "pyproject.toml")
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old` in `file` becomes `new`; `row` is the one that must notice."""

    name: str
    file: str
    old: str
    new: str
    row: str


MUTATIONS = (
    Mutation(
        "the fence: a settle counts whoever holds the job",
        "lua/settling.lua",
        "if not is_held(id, token) then",
        "if not line then",
        "2",
    ),
    Mutation(
        "the dedupe: a repeated idempotency key is a new job",
        "lua/submit.lua",
        "local known = kept[hash]",
        "local known = false",
        "15b",
    ),
    Mutation(
        "the replay guard: a claim that is repeated is a new one",
        "lua/claiming.lua",
        "if last[1] == nonce then",
        "if false then",
        "15",
    ),
    Mutation(
        "the retry ban: a call whose reply was lost is sent again by itself",
        "gateway/store/client.py",
        "            reply = (await self.send([command]))[0]\n"
        "        except (RedisError, OSError) as error:\n"
        "            self.failed(error)\n"
        "            raise\n",
        "            reply = (await self.send([command]))[0]\n"
        "        except (RedisError, OSError) as error:\n"
        "            self.failed(error)\n"
        "            return await self.call(*command)\n",
        "14b",
    ),
    Mutation(
        "the AOF: Redis keeps nothing",
        "tests/faults/stage.py",
        'server: Sequence[str] = ("--appendonly", "yes")',
        'server: Sequence[str] = ("--appendonly", "no")',
        "4",
    ),
)


def notices(mutation: Mutation, seed: int) -> tuple[bool, str]:
    """Whether the row goes red, and what it says; raises ValueError if the line to break is not there once."""
    with tempfile.TemporaryDirectory(prefix="gwmutant-", dir="/tmp") as folder:
        copy = Path(folder)
        _copy(copy)
        file = copy / mutation.file
        text = file.read_text()
        if text.count(mutation.old) != 1:
            raise ValueError(f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times, not once")
        file.write_text(text.replace(mutation.old, mutation.new))
        command = [sys.executable, "-m", "tests.faults", "--rows", mutation.row, "--topology", "standalone"]
        done = subprocess.run(
            [*command, "--seed", str(seed)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        said = [line.strip() for line in done.stdout.splitlines() if line.startswith("      ")]
        if done.returncode not in (0, 1) or (done.returncode == 1 and not said):
            raise ValueError(f"the suite itself failed: {done.stderr[-2000:]}")
        return done.returncode == 1, "; ".join(said)


def _copy(folder: Path) -> None:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, folder / part)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="those whose names hold this")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    unnoticed = 0
    for mutation in MUTATIONS:
        if given.only in mutation.name:
            red, said = notices(mutation, given.seed)
            unnoticed += not red
            print(f"{'red' if red else 'GREEN':5} row {mutation.row:4} {mutation.name}: {said[:160]}", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

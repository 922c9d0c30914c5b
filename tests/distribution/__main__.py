"""`python -m tests.distribution [--out DIR] [--python PATH]…`: builds twice, plays the demo from the wheel."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.distribution.building import build, copy_tree, play_demo


def main() -> int:
    """1 if two builds differ or the demo fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where to keep what was built")
    parser.add_argument("--python", action="append", default=[], help="an interpreter to play the demo with")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gw-dist-") as name:
        folder = Path(name)
        built = build(copy_tree(folder / "one", mtime=1_000_000_000), folder / "dist")
        again = build(copy_tree(folder / "elsewhere" / "two", mtime=1_600_000_000), folder / "again", umask=0o077)
        for file, digest in built.items():
            print(f"{digest}  {file}", flush=True)
        if built != again:
            print(f"a second build differs: {again}", file=sys.stderr)
            return 1
        wheel = next((folder / "dist").glob("*.whl"))
        for at, python in enumerate(given.python or [sys.executable]):
            (folder / str(at)).mkdir()
            print(
                f"{python}: {play_demo(wheel, python, folder / str(at)).strip().splitlines()[0]} … passed", flush=True
            )
        if given.out is not None:
            shutil.copytree(folder / "dist", given.out, dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

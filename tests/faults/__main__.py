"""`python -m tests.faults [--rows 1,4,12] [--topology standalone] [--seed N] [--write]`: the fault suite.

Prints a line for each row; ends with 1 if something did not hold. `--write` puts the table into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.faults.places import TOPOLOGIES
from tests.faults.report import line_of, write_table
from tests.faults.suite import Result, chosen, run_row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rows", default="", help="numbers with commas; all if left out")
    parser.add_argument("--topology", default=",".join(TOPOLOGIES), help="with commas; all if left out")
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if left out")
    parser.add_argument("--write", action="store_true", help="write the table into docs/reliability.md")
    parser.add_argument("--keep", type=Path, default=None, help="copy logs and histories of broken rows there")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    began_s = time.monotonic()
    topologies = [each for each in TOPOLOGIES if each in given.topology.split(",")]
    results: list[Result] = []
    for row, topology in chosen(filter(None, given.rows.split(",")), topologies):
        results.append(run_row(row, topology, seed=seed, keep=given.keep))
        print(line_of(results[-1]), flush=True)
        for breach in results[-1].breaches:
            print(f"      {breach}", flush=True)
    if given.write:
        write_table(results)
    broken = sum(bool(result.breaches) for result in results)
    print(f"{len(results)} rows, {broken} broken, {time.monotonic() - began_s:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.model --examples 2000 --steps 50`: random lives of the engine, every rule checked at every step."""

from __future__ import annotations

import argparse
import random
import sys
import time

import redis

from tests.model.driver import Tally
from tests.model.mutations import MUTATIONS, judge
from tests.model.run import client, run

ROUND = 400
"""Lives that Hypothesis draws in one go: it remembers all of them, so that none comes twice."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if left out")
    parser.add_argument("--mutations", action="store_true", help="break the scripts on purpose, one line at a time")
    parser.add_argument("--only", default="", help="with --mutations: those whose names hold this")
    given = parser.parse_args()
    seed = random.randrange(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with client() as made:
        if given.mutations:
            sys.exit(_mutate(made, given, seed))
        tally = Tally()
        for first in range(0, given.examples, ROUND):
            examples = min(ROUND, given.examples - first)
            run(made, examples=examples, steps=given.steps, seed_from=seed + first, tally=tally)
    print(f"{tally} failures=0 in {time.monotonic() - began:.1f} s")


def _mutate(made: redis.Redis, given: argparse.Namespace, seed: int) -> int:
    """Prints a line for each mutation; 1 if one of them went unnoticed."""
    unnoticed = 0
    for mutation in MUTATIONS:
        if given.only in mutation.name:
            verdict = judge(made, mutation, examples=given.examples, steps=given.steps, seed_from=seed)
            unnoticed += not verdict.noticed
            print(
                f"{'red' if verdict.noticed else 'GREEN':5} {verdict.examples:4} {mutation.name}: {verdict.said[:140]}",
                flush=True,
            )
    return 1 if unnoticed else 0


if __name__ == "__main__":
    main()

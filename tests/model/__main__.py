"""`python -m tests.model --examples 2000 --steps 50`: random lives of the engine, every rule checked at every step."""

from __future__ import annotations

import argparse
import random
import time

from tests.model.run import client, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if left out")
    given = parser.parse_args()
    seed = random.randrange(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with client() as made:
        tally = run(made, examples=given.examples, steps=given.steps, seed_from=seed)
    print(f"{tally} failures=0 in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()

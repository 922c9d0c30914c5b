"""`python -m tests.openapi [--requests 20000] [--seed N]`: the long form of what CI does shortly."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.openapi.fuzz import fuzz
from tests.openapi.installation import described


def main() -> int:
    """1 if an answer was not as described."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gw-openapi-") as name, described(Path(name)) as gateway:
        outcome = fuzz(
            gateway, requests=given.requests, examples=given.examples, seed=given.seed, workers=given.workers
        )
    print(outcome.report or f"{outcome.requests} requests, every answer as described")
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main())

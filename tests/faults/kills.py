"""`python -m tests.faults.kills [--kills 1000] [--seed N]`: kill -9 of dispatchers at random points, under load.

Every acknowledged job must succeed, with one attempt each: a crash spends none; and no count of what runs may leak.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

from gateway.store import Store
from tests.faults.checker import Facts, check, check_end
from tests.faults.load import steady
from tests.faults.places import placed
from tests.faults.stage import Setup, Stage, on_stage
from tests.store.site import LANES

SLOTS = 4
DISPATCHERS = 3
SETUP = Setup(slots=SLOTS, dispatchers=DISPATCHERS, gateway={"max_stalls": 100})


def kill_at_random(stage: Stage, kills: int) -> None:
    """Kills one after the other, each at a random point of its life, and starts another in its place."""
    with stage.load(steady, every_s=0.6):
        for at in range(kills):
            seat = stage.draw.randrange(DISPATCHERS)
            victim = stage.dispatchers[seat]
            if stage.draw.random() < 0.8:  # mostly at work, sometimes while it still starts
                victim.await_line("dispatcher started")
            stage.pause(0.0, 0.4)
            victim.kill()
            stage.replace_dispatcher(seat)
            if at % 50 == 49:
                print(f"{at + 1} kills, {stage.acked} acknowledged", flush=True)
        for dispatcher in stage.dispatchers:
            dispatcher.await_line("dispatcher started")


async def attempts_spent(stage: Stage) -> int:
    """Attempts beyond the first of all acknowledged jobs."""
    store = await Store.open(stage.place.url, lanes=LANES)
    try:
        ids = [job_id for load in stage.loads for job_id in load.acknowledged]
        found = [each for first in range(0, len(ids), 200) for each in await store.find_many(ids[first : first + 200])]
        return sum(each.record.attempts - 1 for each in found if each is not None)
    finally:
        await store.aclose()


def run(kills: int, seed: int) -> Facts:
    began_s = time.monotonic()
    with placed("standalone", ("--appendonly", "yes")) as place, on_stage(place, SETUP, seed=seed) as stage:
        kill_at_random(stage, kills)
        facts = check(stage, timeout_s=300)
        spent = asyncio.run(attempts_spent(stage))
        if facts.dead:
            facts.breach("I1", f"{facts.dead} jobs did not succeed")
        if spent:
            facts.breach("I2", f"{spent} attempts were spent by crashes")
        if facts.doubled > kills * SLOTS:
            facts.breach("doubled", f"{facts.doubled} ran again of {kills * SLOTS} that were in flight")
        check_end(stage, facts)
    print(
        f"{kills} kills, {facts.acknowledged} acknowledged, {facts.lost} lost, {facts.dead} not succeeded, "
        f"{facts.doubled} ran again (≤ {kills * SLOTS}), {spent} attempts spent, {time.monotonic() - began_s:.0f} s"
    )
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    facts = run(given.kills, seed)
    for breach in facts.breaches:
        print(f"      {breach}")
    return 1 if facts.breaches else 0


if __name__ == "__main__":
    sys.exit(main())

"""Failovers one after the other under load, as a command: what was lost, and how long nobody could submit.

python -m tests.topology.failovers --count 50 --rate 2000 --durability replica
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import time
from dataclasses import dataclass

import structlog

from gateway.store import Store
from gateway.store.durability import Durability
from tests.groups import SentinelGroup
from tests.topology.load import Load

PRODUCERS = 40


@dataclass(frozen=True, slots=True)
class Round:
    """One failover: jobs a second before it, jobs acknowledged in all and of them lost, refused tries, seconds to the
    promotion and from it to the next acknowledgement."""

    rate: float
    acknowledged: int
    lost: int
    refused: int
    promoted_s: float
    resumed_s: float


async def fail_over_once(group: SentinelGroup, *, rate: int, durability: Durability) -> Round:
    store = await Store.open(group.url, namespace=f"f{time.monotonic_ns()}")
    load = Load(store, "none", durability)
    tasks = [asyncio.create_task(load.run(every_s=PRODUCERS / rate)) for _ in range(PRODUCERS)]
    try:
        began_s = time.monotonic()
        await load.more(rate)
        before = rate / (time.monotonic() - began_s)
        promoted_s = await asyncio.to_thread(group.fail_over)
        at_s = time.monotonic()
        await load.more(rate // 2, timeout_s=30)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    try:
        lost = await load.missing()
        return Round(before, len(load.acknowledged), len(lost), len(load.refused), promoted_s, load.first_after(at_s))
    finally:
        await store.aclose()


async def run(count: int, *, rate: int, durability: Durability) -> list[Round]:
    rounds: list[Round] = []
    group = SentinelGroup(extra=["--appendonly", "yes"])
    with group:
        for number in range(1, count + 1):
            done = await fail_over_once(group, rate=rate, durability=durability)
            rounds.append(done)
            print(
                f"{number:3}  {done.rate:5.0f} jobs/s"
                f"  acknowledged {done.acknowledged:6}  lost {done.lost:4}  refused {done.refused:5}"
                f"  promoted after {done.promoted_s:.2f} s  resumed after {done.resumed_s:.2f} s",
                flush=True,
            )
            await asyncio.to_thread(group.bring_back)
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--rate", type=int, default=2000, help="jobs a second that are asked for")
    parser.add_argument("--durability", choices=("memory", "replica"), default="replica")
    wanted = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    rounds = asyncio.run(run(wanted.count, rate=wanted.rate, durability=wanted.durability))
    lost = sum(each.lost for each in rounds)
    slow = max(each.resumed_s for each in rounds)
    acknowledged = sum(each.acknowledged for each in rounds)
    pace = statistics.median(each.rate for each in rounds)
    print(f"{len(rounds)} failovers at {pace:.0f} jobs/s (median), {acknowledged} acknowledged", end=" ")
    print(f"with {wanted.durability}: {lost} lost;", end=" ")
    print(f"submits resumed at most {slow:.2f} s after the promotion")
    return 1 if slow > 2 or (lost and wanted.durability == "replica") else 0


if __name__ == "__main__":
    raise SystemExit(main())

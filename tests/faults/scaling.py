"""`python -m tests.faults.scaling [--share 0.08] [--seconds 10] [--write]`: what a job costs, and what that predicts.

Measures the CPU that one job costs Redis and a dispatcher and the bytes that it moves, predicts from that what one, two
and three primaries carry that are each held to a small share of a core, and measures it. `--write` puts the figures
into docs/scaling.md. Needs root and cgroups (version 1), to hold servers to their share, and a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.bench.rig import NOOP, dispatcher, fill, finished, fresh_store
from gateway.jobs import Settlement, Submission
from gateway.store import Store, Worker
from tests.faults.places import placed
from tests.faults.report import replace_between
from tests.groups import ClusterGroup
from tests.servers import Server

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "scaling.md"
CGROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
PARTITIONS = 12
BATCH = 100
PAYLOAD = b'{"n":"' + b"x" * 192 + b'"}'
CALIBRATION = 30_000


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one job, from its submission to its settlement: CPU in us, and bytes over the network to and from Redis."""

    redis_us: float
    dispatcher_us: float
    bytes: float

    def jobs_per_s(self, primaries: int, share: float) -> float:
        """What so many primaries carry, each with that share of a core."""
        return primaries * share * 1e6 / self.redis_us


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run."""

    primaries: int
    predicted: float
    measured: float


async def calibrate() -> Costs:
    """The costs, of one server without a limit: batches of 100 claimed and settled, of 500 submitted."""
    with placed("standalone", ()) as place:
        async with fresh_store(place.url) as store:
            with place.server.client() as client:
                before_s, before = cpu_s(place.server.pid), client.info("stats")
                await _carry(store, seconds=0, jobs=CALIBRATION)
                used_s, after = cpu_s(place.server.pid) - before_s, client.info("stats")
        moved = sum(after[f"total_net_{way}_bytes"] - before[f"total_net_{way}_bytes"] for way in ("input", "output"))
        async with fresh_store(place.url) as store:
            await fill(store, NOOP, [PAYLOAD] * CALIBRATION)
            began_s = time.process_time()
            async with dispatcher(place.url, store):
                await finished(store, CALIBRATION)
            dispatcher_s = time.process_time() - began_s
    return Costs(used_s * 1e6 / CALIBRATION, dispatcher_s * 1e6 / CALIBRATION, moved / CALIBRATION)


async def measure(primaries: int, *, share: float, seconds: float, costs: Costs) -> Run:
    """What that many primaries carry, each held to its share."""
    with ClusterGroup(primaries=primaries, replicas=0) as group:
        async with contextlib.AsyncExitStack() as stack:
            store = await Store.open(group.url, namespace="scale", partitions=PARTITIONS, lanes=("default",))
            stack.push_async_callback(store.aclose)
            for node in group.nodes:
                stack.enter_context(held_to(node, share))
            await _carry(store, seconds=seconds / 5, jobs=0)  # the first quota is there to be used up
            began_s = time.monotonic()
            done = await _carry(store, seconds=seconds, jobs=0)
            return Run(primaries, costs.jobs_per_s(primaries, share), done / (time.monotonic() - began_s))


async def _carry(store: Store, *, seconds: float, jobs: int) -> int:
    """Submits, claims and settles in every partition at once, for so long or until so many are done: how many were."""
    until_s = time.monotonic() + seconds
    share = jobs // store.partitions
    counts = await asyncio.gather(
        *(_carry_in(store, partition, until_s, share) for partition in range(store.partitions) for _ in range(2))
    )
    return sum(counts)


async def _carry_in(store: Store, partition: int, until_s: float, jobs: int) -> int:
    keyspace = store.keyspaces[partition]
    name = f"w{partition}-{random.randrange(2**32):x}"
    worker = Worker(store.client, keyspace, name, store.lanes, lease_ms=600_000, heartbeat_ms=600_000)
    settlements: list[Settlement] = []
    done = 0
    while done * 2 < jobs or time.monotonic() < until_s:
        ids = [_id_in(store, partition) for _ in range(BATCH)]
        await store.submit([Submission(job_id, "noop", PAYLOAD) for job_id in ids])
        exchange = await worker.exchange(settlements, worker.next_claim(BATCH, suspects=True))
        done += len(settlements)
        settlements = [Settlement(job.job_id, job.token, "succeeded") for job in exchange.claimed]
    await worker.exchange(settlements, None)
    return done + len(settlements)


def _id_in(store: Store, partition: int) -> str:
    return f"{store.new_id(time.time_ns() // 1_000_000)[:-2]}{partition:02x}"


@contextlib.contextmanager
def held_to(server: Server, share: float) -> Iterator[None]:
    """Holds a server to a share of one core."""
    group = CGROUPS / f"gwscale-{server.pid}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(max(1000, round(share * PERIOD_US))))
        (group / "cgroup.procs").write_text(str(server.pid))
        yield
    finally:
        (CGROUPS / "cgroup.procs").write_text(str(server.pid))
        group.rmdir()


def cpu_s(pid: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def render(costs: Costs, runs: list[Run], share: float) -> str:
    """The figures, as the page shows them."""
    lines = [
        f"One job, submitted in batches, claimed and settled by 100: **{costs.redis_us:.1f} µs** of Redis, "
        f"**{costs.dispatcher_us:.1f} µs** of a dispatcher, **{costs.bytes:,.0f} bytes** over the network.",
        "",
        f"| primaries at {share:.0%} of a core each | predicted jobs/s | measured jobs/s | measured / predicted |",
        "| --- | --- | --- | --- |",
        *(_line(run) for run in runs),
        "",
        "| primaries, a partition each, at 80 % of a core | jobs/s | dispatchers at 80 % of a core | network |",
        "| --- | --- | --- | --- |",
    ]
    for primaries in (1, 2, 3, 6, 10, 20, 50, 100):
        rate = costs.jobs_per_s(primaries, 0.8)
        dispatchers = rate * costs.dispatcher_us / 0.8e6
        network = rate * costs.bytes
        lines.append(f"| {primaries} | {rate:,.0f} | {dispatchers:,.0f} | {network * 8 / 1e9:,.2f} Gbit/s |")
    return "\n".join(lines)


def _line(run: Run) -> str:
    return f"| {run.primaries} | {run.predicted:,.0f} | {run.measured:,.0f} | {run.measured / run.predicted:.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.scaling", description=__doc__)
    parser.add_argument("--share", type=float, default=0.1, help="of a core, for each server; at least 0.1")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--primaries", default="1,2,3")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/scaling.md")
    given = parser.parse_args()
    costs = asyncio.run(calibrate())
    print(costs, flush=True)
    runs = []
    for primaries in map(int, given.primaries.split(",")):
        runs.append(asyncio.run(measure(primaries, share=given.share, seconds=given.seconds, costs=costs)))
        print(runs[-1], flush=True)
    text = render(costs, runs, given.share)
    print(text)
    if given.write:
        replace_between(PAGE, "costs", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

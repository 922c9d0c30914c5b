"""`python -m tests.budget`: instructions that Redis takes for a job, by script, counted by callgrind.

Unlike processor time they are the same on a busy machine, to half a percent. With `--keep` the profiles stay, for
`callgrind_annotate`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from gateway.jobs import LANES, Claimed, Settlement
from gateway.store import Store, Worker
from gateway.store.launch import ENVIRONMENT, server_binary
from tests.budget.test_budget import jobs_of
from tests.servers import Server

START = """#!/bin/sh
export GLIBC_TUNABLES={malloc}
exec valgrind --quiet --tool=callgrind --instr-atstart=no --callgrind-out-file={folder}/profile {binary} "$@"
"""
TOTAL = re.compile(r"^summary: (\d+)$", re.MULTILINE)
Phase = Callable[[str], AbstractContextManager[None]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("--keys", type=int, nargs="*", default=[0, 1, 10, 1000], help="of the jobs; 0: a plain target")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--keep", type=Path, help="a folder for the profiles")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        starter = folder / "valkey-server"
        starter.write_text(START.format(folder=folder, binary=server_binary(), malloc=ENVIRONMENT["GLIBC_TUNABLES"]))
        starter.chmod(0o700)
        with Server(binary=starter) as server:
            asyncio.run(count(server, folder, given.keys, batch=given.batch, jobs=given.jobs))


async def count(server: Server, folder: Path, keys: Sequence[int], *, batch: int, jobs: int) -> None:
    """Prints the instructions per job of each script, for jobs with each number of keys."""
    store = await Store.open(server.url, lanes=LANES)
    print(f"instructions per job, {batch} at a time: submit, claim, settle")
    for number in keys:
        totals: list[int] = []

        @contextlib.contextmanager
        def counted(name: str, number: int = number, totals: list[int] = totals) -> Iterator[None]:
            control(server, "--zero")
            control(server, "--instr=on")
            yield
            control(server, f"--dump={name}-{number}")
            control(server, "--instr=off")
            newest = max(folder.glob("profile.*"), key=lambda path: int(path.suffix[1:]))
            total = TOTAL.search(newest.read_text(errors="replace"))
            assert total, f"{newest} has no sum"
            newest.rename(folder / f"{name}-{number}")
            totals.append(int(total[1]))

        if number:
            await store.control_flow("keyed", {"concurrency": 1_000_000})
        await live(store, number, batch, 12 * batch, lambda name: contextlib.nullcontext())
        await live(store, number, batch, jobs, counted)
        each = [round(total / jobs) for total in totals]
        print(
            f"{f'{number:,} keys' if number else 'plain':>12}", *(f"{n:>9,}" for n in each), f"{sum(each):>9,} in all"
        )
    await store.aclose()


async def live(store: Store, keys: int, batch: int, jobs: int, phase: Phase) -> None:
    """Submits all jobs, then claims all, then settles all, each in its phase."""
    worker = Worker(store.client, store.keyspaces[0], "d1", store.lanes, lease_ms=600_000, heartbeat_ms=600_000)
    target, names = ("keyed", [f"key-{n}" for n in range(keys)]) if keys else ("plain", [""])
    submissions = jobs_of(store, target, jobs, names)
    with phase("submit"):
        for first in range(0, jobs, batch):
            await store.submit(submissions[first : first + batch])
    claims: list[Sequence[Claimed]] = []
    with phase("claim"):
        while sum(len(claim) for claim in claims) < jobs:
            claims.append((await worker.exchange([], worker.next_claim(batch, suspects=True))).claimed)
    with phase("settle"):
        for claim in claims:
            await worker.exchange([Settlement(job.job_id, job.token, "succeeded") for job in claim], None)


def control(server: Server, order: str) -> None:
    subprocess.run(["callgrind_control", order, str(server.pid)], check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    main()

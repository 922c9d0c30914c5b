"""What a job costs, counted: commands and round trips of Redis, calls of Python, held to `budget.toml`."""

from __future__ import annotations

import time
import tomllib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from gateway.cli.bench.rig import NOTE, dispatcher
from gateway.cli.bench.tasks import STARTS
from gateway.jobs import LANES, Settlement, Submission
from gateway.store import Store, Worker
from tests.budget.counting import between, commands, python_calls, round_trips
from tests.servers import Server
from tests.waiting import until

JOBS = 1_000
BUDGET: dict[str, dict[str, float]] = tomllib.loads((Path(__file__).parent / "budget.toml").read_text())


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own: another test's commands would be counted too."""
    with Server() as server:
        yield server


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    store = await Store.open(server.url, lanes=LANES)
    yield store
    await store.aclose()


def within(section: str, name: str, cost: float) -> None:
    """Fails where it costs more than it may."""
    most = BUDGET[section][name]
    assert cost <= most, f"{section}.{name} is {cost:.2f}, and may be {most:g}: see tests/budget/budget.toml"


def jobs_of(store: Store, target: str, count: int, keys: Sequence[str] = ("",)) -> list[Submission]:
    now_ms = time.time_ns() // 1_000_000
    return [
        Submission(store.new_id(now_ms, target=target), target, b"%d" % n, key=keys[n % len(keys)])
        for n in range(count)
    ]


async def live(store: Store, target: str, *, batch: int, jobs: int, keys: Sequence[str] = ("",)) -> float:
    """Submits, claims and settles: Redis's commands per job."""
    worker = Worker(store.client, store.keyspaces[0], "d1", store.lanes, lease_ms=60_000, heartbeat_ms=60_000)
    before = await commands(store)
    submissions = jobs_of(store, target, jobs, keys)
    for first in range(0, jobs, batch):
        await store.submit(submissions[first : first + batch])
    settlements: list[Settlement] = []
    done = 0
    while done < jobs:
        exchange = await worker.exchange(settlements, worker.next_claim(batch, suspects=True))
        done += len(settlements)
        settlements = [Settlement(job.job_id, job.token, "succeeded") for job in exchange.claimed]
    return (await between(store, before)).all / jobs


async def warm(store: Store) -> None:
    """Scripts that the server does not know yet would be sent twice."""
    await live(store, "warm", batch=10, jobs=20)


async def test_scripts_take_no_more_commands_than_they_may(store: Store) -> None:
    await warm(store)
    within("scripts", "plain_in_batches_of_100", await live(store, "plain", batch=100, jobs=JOBS))
    within("scripts", "plain_one_at_a_time", await live(store, "plain", batch=1, jobs=100))
    await store.control_flow("flow", {"concurrency": 1_000_000})
    within("scripts", "one_flow_in_batches_of_100", await live(store, "flow", batch=100, jobs=JOBS))
    keys = [f"key-{n}" for n in range(10)]
    within("scripts", "ten_keys_in_batches_of_100", await live(store, "flow", batch=100, jobs=JOBS, keys=keys))
    keys = [f"key-{n}" for n in range(JOBS)]
    within("scripts", "thousand_keys_in_batches_of_100", await live(store, "flow", batch=100, jobs=JOBS, keys=keys))


async def test_dispatcher_costs_no_more_than_it_may(server: Server, store: Store) -> None:
    await warm(store)
    async with dispatcher(server.url, store):
        STARTS.expect(1)
        await store.submit(jobs_of(store, NOTE, 1))
        await until(_all_started)
        await store.control_lane("default", paused=True)
        submissions = jobs_of(store, NOTE, JOBS)
        for first in range(0, JOBS, 100):
            await store.submit(submissions[first : first + 100])
        STARTS.expect(JOBS)
        trips, before = round_trips(store), await commands(store)
        await store.control_lane("default", paused=False)
        with python_calls() as calls:
            await until(_all_started, every_s=0.05)
        within("dispatcher", "python_calls_per_job", calls.count / JOBS)
        within("dispatcher", "round_trips_per_100_jobs", (round_trips(store) - trips) * 100 / JOBS)
        within("dispatcher", "script_calls_per_100_jobs", (await between(store, before)).scripts * 100 / JOBS)


async def test_submit_costs_no_more_than_it_may(store: Store) -> None:
    await warm(store)
    submissions = jobs_of(store, "plain", JOBS)
    trips = round_trips(store)
    with python_calls() as calls:
        for first in range(0, JOBS, 100):
            await store.submit(submissions[first : first + 100])
    within("submit", "python_calls_per_job", calls.count / JOBS)
    within("submit", "round_trips_per_100_jobs", (round_trips(store) - trips) * 100 / JOBS)


async def _all_started() -> bool:
    return STARTS.complete.is_set()

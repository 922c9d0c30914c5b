"""A target that is down, and another that is gone, in a running dispatcher: what is tried, told and made good."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from gateway.store import Store
from gateway.store.targets import inspect_targets
from tests.dispatch.running import dispatching, settings_for
from tests.egress.receiver import Peer, Receiver, always, answer
from tests.servers import Server

CONFIG = """
[egress]
allow = ["127.0.0.1"]
[notices]
target = "ops"
[targets.down]
executor = "http"
url = "{url}"
retry = {{ policy = "fixed", base = "10ms", max_attempts = 3 }}
breaker = {{ minimum = 10, window = "10s", pause = "300ms", cap = "600ms" }}
[targets.ops]
executor = "http"
url = "{ops}"
"""


class Service:
    """Answers with `status`; remembers when it failed."""

    def __init__(self, status: str = "503 X") -> None:
        self.status = status
        self.failed_s: list[float] = []

    async def __call__(self, peer: Peer) -> None:
        while await peer.read() is not None:
            if self.status != "200 X":
                self.failed_s.append(asyncio.get_running_loop().time())
            await peer.write(answer(self.status))

    def tries(self, pause_s: float = 0.1) -> int:
        """How many of its failures came after a pause: those of jobs that tried while the breaker was half open."""
        return sum(later - earlier >= pause_s for earlier, later in pairwise(self.failed_s))


async def blocked(store: Store, target: str) -> str:
    return (await inspect_targets(store, [target]))[target].blocked


async def told(receiver: Receiver, count: int) -> list[tuple[str, str]]:
    await receiver.arrived(count)
    bodies = [orjson.loads(seen.body) for seen in receiver.requests]
    return [(body["type"], body["data"]["cause"]) for body in bodies]


async def test_target_that_is_down_costs_no_attempts_but_the_breakers_own(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    service, jobs = Service(), 300
    async with Receiver(service) as receiver, Receiver(always(answer())) as ops:
        config = CONFIG.format(url=receiver.url, ops=ops.url)
        settings = settings_for(tmp_path, valkey_server.url, namespace, more=config, slots=20)
        async with dispatching(settings) as running:
            ids = [await running.client.submit("down", number, max_attempts=20) for number in range(jobs)]
            async with asyncio.timeout(10):
                while service.tries() < 3:  # noqa: ASYNC110 (nothing announces it)
                    await asyncio.sleep(0.01)
            assert await blocked(running.client.store, "down") == "breaker"
            service.status = "200 X"
            records = [await running.client.ended(job_id, timeout_s=60) for job_id in ids]
            assert {record.status.value for record in records} == {"succeeded"}
            spent = sum(record.attempts for record in records) - jobs
            assert spent <= 10 + service.tries()
            assert await told(ops, 2) == [("target.disabled", "breaker"), ("target.recovered", "breaker")]


@pytest.mark.long
async def test_target_that_is_down_for_half_a_minute_costs_the_minimum_and_the_tries(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    service, jobs = Service(), 1_000
    async with Receiver(service) as receiver:
        config = f'[egress]\nallow = ["127.0.0.1"]\n[targets.down]\nexecutor = "http"\nurl = "{receiver.url}"\n'
        async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=config)) as running:
            ids = [await running.client.submit("down", number) for number in range(jobs)]
            await asyncio.sleep(30)
            assert await blocked(running.client.store, "down") == "breaker"
            service.status = "200 X"
            records = [await running.client.ended(job_id, timeout_s=60) for job_id in ids]
            assert {record.status.value for record in records} == {"succeeded"}
            spent, tries = sum(record.attempts for record in records) - jobs, service.tries(2.0)
            print(f"{spent} failed attempts spent by {jobs:,} jobs in 30 s; the minimum is 20, tries: {tries}")
            assert tries > 0
            assert spent <= 20 + tries


async def test_target_that_is_gone_is_disabled_and_said_to_be(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    async with Receiver(Service("410 X")) as receiver, Receiver(always(answer())) as ops:
        config = CONFIG.format(url=receiver.url, ops=ops.url)
        async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=config)) as running:
            record = await running.client.ended(await running.client.submit("down", 1))
            assert (record.status.value, record.reason, record.attempts) == ("dead", "fatal", 1)
            assert await told(ops, 1) == [("target.disabled", "gone")]
            waiting = await running.client.submit("down", 1)
            assert (await running.client.record(waiting)).waiting_on == "disabled"
            assert len(receiver.requests) == 1

"""A dispatcher in the test's own event loop, over a real Redis, and what a test asks of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.stopping import Stop
from gateway.egress.client import EgressClient
from gateway.egress.resolver import Lookup
from gateway.jobs import Claimed, Options, Record, Submission, pack_body
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import Settings, load
from gateway.signers import signing_keys
from gateway.store import Store, Worker
from tests.waiting import until

CALLS = (
    "echo",
    "hold",
    "mark",
    "swallow",
    "mind",
    "desert",
    "block",
    "fail",
    "fail_oddly",
    "end_itself",
    "end_in_thread",
    "result",
    "large",
    "power",
    "leave",
    "deadline",
    "facts",
    "advance",
)
CONFIG = "\n".join(
    f'[targets.{name}]\nexecutor = "python"\ncallable = "tests.dispatch.tasks:{name}"\n'
    'retry = { policy = "fixed", base = "10ms", cap = "1s", max_attempts = 3 }\n'
    for name in CALLS
)


def settings_for(directory: Path, redis_url: str, namespace: str, *, more: str = "", **gateway: Any) -> Settings:
    """Settings with a target for each call of `tasks`; `gateway` over its section, `more` is TOML."""
    section = "\n".join(f"{key} = {orjson.dumps(value).decode()}" for key, value in gateway.items())
    (directory / "gateway.toml").write_text(f"[gateway]\n{section}\n{CONFIG}\n{more}")
    environ = {"GATEWAY_REDIS_URL": redis_url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    return load(environ, directory)


@dataclass(frozen=True, slots=True)
class Dispatching:
    """A running dispatcher: `task` ends when it does; `client` submits and looks."""

    settings: Settings
    dispatcher: Dispatcher
    stop: Stop
    task: asyncio.Task[None]
    metrics: CollectorRegistry
    client: Client
    runner: Runner

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.get_sample_value(name, labels) or 0.0


@dataclass(frozen=True, slots=True)
class Client:
    """Submits jobs and waits for what becomes of them."""

    store: Store

    async def submit(self, target: str, payload: Any = None, **options: Any) -> str:
        job_id = self.store.new_id(time.time_ns() // 1_000_000)
        await self.store.submit([Submission(job_id, target, orjson.dumps(payload), **options)])
        return job_id

    async def record(self, job_id: str) -> Record:
        return (await self.store.find(job_id)).record

    async def reached(self, job_id: str, *statuses: str, timeout_s: float = 20.0) -> Record:
        """The record, once its status is one of these."""
        seen: list[Record] = []

        async def there() -> bool:
            seen[:] = [await self.record(job_id)]
            return seen[0].status in statuses

        try:
            await until(there, timeout_s=timeout_s)
        except TimeoutError:
            raise AssertionError(f"still {seen[0].status}, not {statuses}") from None
        return seen[0]

    async def ended(self, job_id: str, *, timeout_s: float = 20.0) -> Record:
        return await self.reached(job_id, "succeeded", "dead", "cancelled", timeout_s=timeout_s)

    async def count(self, counter: str) -> int:
        counters = (await self.store.inspect()).counters
        return sum(value for name, value in counters.items() if name.split(":")[0] == counter)

    def worker(self, settings: Settings, name: str = "other", *, lease_s: float | None = None) -> Worker:
        """Another dispatcher, worked by hand; its leases are as long as those of `settings` unless told."""
        lease_ms = round((lease_s or settings.gateway.lease) * 1000)
        return Worker(
            self.store.client, self.store.keyspaces[0], name, self.store.lanes, lease_ms=lease_ms, heartbeat_ms=lease_ms
        )


@contextlib.asynccontextmanager
async def client_of(settings: Settings) -> AsyncIterator[Client]:
    assert settings.redis_url is not None
    gateway = settings.gateway
    store = await Store.open(
        settings.redis_url.reveal(),
        namespace=gateway.namespace,
        partitions=settings.partitions,
        lanes=settings.lanes.order,
    )
    try:
        yield Client(store)
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def dispatching(
    settings: Settings, *, lease_url: str | None = None, lookup: Lookup | None = None
) -> AsyncIterator[Dispatching]:
    """Runs until the block ends, then stops it at once; `lease_url` is where its leases are renewed, if elsewhere;
    `lookup` resolves names instead of the system."""
    assert settings.redis_url is not None
    registry, metrics, stop = Registry.build(settings), CollectorRegistry(), Stop()
    async with client_of(settings) as client, EgressClient(settings.egress.allow, lookup=lookup) as http:
        client.store.expect_flows(registry.flows)
        client.store.expect_notices(registry.notices)
        await client.store.configure()
        runner = Runner(registry, http, signing_keys=lambda: signing_keys(settings.gateway, client.store))
        dispatcher = Dispatcher(
            settings,
            client.store,
            registry=registry,
            runner=runner,
            redis_url=lease_url or settings.redis_url.reveal(),
            metrics=DispatchMetrics(metrics),
            wall_ms=lambda: time.time_ns() // 1_000_000,
            rng=random.Random(1),
        )
        await registry.start()
        task = asyncio.create_task(dispatcher.run(stop))
        try:
            yield Dispatching(settings, dispatcher, stop, task, metrics, client, runner)
        finally:
            stop.ask()
            stop.ask()
            await asyncio.wait([task], timeout=15)
            await registry.aclose()
        await task


def claimed(target: str, payload: object, *, options: Options | None = None, attempt: int = 1) -> Claimed:
    """A job as a claim brings it, of a namespace that does not matter."""
    body = pack_body(options or Options(), orjson.dumps(payload)).encode()
    token = f"{attempt}:d1.7"
    return Claimed(
        "01a22780-5329-7d03-8458-4c0287d2a700", attempt, 3, target, "default", "", 0, 1, 0, False, body, token
    )

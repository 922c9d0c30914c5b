"""Pytest fixtures for those who write plugins; `pytest_plugins = ["gateway.testing.fixtures"]` in a conftest has them.

    async def test_a_label_is_printed(gateway):
        await gateway.start('[targets.label]\\nexecutor = "printer"\\ntray = 2', plugins=["shop_plugin"])
        record = await gateway.run("label", {"sheets": 3})
        assert (record.status, record.result) == ("succeeded", b'{"printed":3}')

A real dispatcher in the test's own event loop, over a real Valkey that is started once for the whole run; each test has
a namespace of its own in it. Needs pytest-asyncio in auto mode.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.metrics import DispatchMetrics
from gateway.dispatch.stopping import Stop
from gateway.egress.client import EgressClient
from gateway.executor import Executor
from gateway.jobs import Record, Submission
from gateway.opening import make_store
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import load
from gateway.store import Store
from gateway.store.embedded import EmbeddedValkey

_EVERY_S = 0.01
_STOP_S = 15.0


class RunningGateway:
    """What the fixture `gateway` gives: nothing runs until `start`."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self._url = redis_url
        self._folder = folder
        self._namespace = f"t{uuid.uuid4().hex[:12]}"
        self._store: Store | None = None
        self._registry: Registry | None = None
        self._http: EgressClient | None = None
        self._stop = Stop()
        self._task: asyncio.Task[None] | None = None

    async def start(
        self, toml: str, *, plugins: Sequence[str] = (), executors: Sequence[Executor[Any]] = (), **gateway: Any
    ) -> None:
        """Loads a `gateway.toml` of this text and runs its jobs from now on; raises ConfigError as start-up would.

        `plugins` are modules to load, `executors` instances to use as they are; `gateway` are keys of `[gateway]`. A
        relative path in the text starts at the test's folder.
        """
        assert self._task is None, "start() is called once"
        section = "\n".join(f"{key} = {json.dumps(value)}" for key, value in gateway.items())
        text = f"plugins = {json.dumps(list(plugins))}\n[gateway]\n{section}\n{toml}"
        (self._folder / "gateway.toml").write_text(text)
        environ = {"GATEWAY_REDIS_URL": self._url, "GATEWAY_GATEWAY_NAMESPACE": self._namespace}
        settings = load(environ, self._folder)
        registry = Registry.build(settings, executors=executors)
        self._store = make_store(settings, self._url, flows=registry.flows)
        await self._store.configure()
        await registry.start()
        self._registry, self._http = registry, EgressClient(settings.egress.allow)
        await self._http.__aenter__()
        dispatcher = Dispatcher(
            settings,
            self._store,
            registry=registry,
            runner=Runner(registry, self._http),
            redis_url=self._url,
            metrics=DispatchMetrics(CollectorRegistry()),
            wall_ms=lambda: time.time_ns() // 1_000_000,
            rng=random.Random(),  # noqa: S311 (jitter)
        )
        self._task = asyncio.create_task(dispatcher.run(self._stop))

    async def submit(self, target: str, payload: Any = None, **options: Any) -> str:
        """Submits a job and gives its id; `options` are fields of `gateway.jobs.Submission`."""
        store = self._started()
        job_id = store.new_id(time.time_ns() // 1_000_000)
        defaults = {"max_attempts": self._registry.target(target).retry.max_attempts} if self._registry else {}
        await store.submit([Submission(job_id, target, orjson.dumps(payload), **(defaults | options))])
        return job_id

    async def ended(self, job_id: str, *, timeout_s: float = 10.0) -> Record:
        """The job's record once it is over; raises TimeoutError."""
        store = self._started()
        async with asyncio.timeout(timeout_s):
            while not (record := (await store.find(job_id)).record).status.finished:  # noqa: ASYNC110 (nothing tells of it)
                await asyncio.sleep(_EVERY_S)
        return record

    async def run(self, target: str, payload: Any = None, *, timeout_s: float = 10.0, **options: Any) -> Record:
        """Submits a job and waits for its end."""
        return await self.ended(await self.submit(target, payload, **options), timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Stops what was started."""
        if self._task is not None:
            self._stop.ask()
            self._stop.ask()
            await asyncio.wait([self._task], timeout=_STOP_S)
        if self._registry is not None:
            await self._registry.aclose()
        if self._http is not None:
            await self._http.__aexit__(None, None, None)
        if self._store is not None:
            await self._store.aclose()
        if self._task is not None:
            await self._task

    def _started(self) -> Store:
        assert self._store is not None, "call start() first"
        return self._store


@pytest.fixture(scope="session")
def gateway_redis_url() -> Iterator[str]:
    """The URL of a Valkey that lives as long as the test run."""
    with tempfile.TemporaryDirectory(prefix="gateway-testing-", dir="/tmp") as folder:
        embedded = EmbeddedValkey(Path(folder) / "data", temporary=True)
        try:
            yield embedded.start()
        finally:
            embedded.stop()


@pytest.fixture
async def gateway(gateway_redis_url: str, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway of the test's own."""
    running = RunningGateway(gateway_redis_url, tmp_path)
    try:
        yield running
    finally:
        await running.aclose()

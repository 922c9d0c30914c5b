"""A gateway on a real socket, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from gateway.api import create_app
from gateway.api.server import open_store, uvicorn_config
from gateway.completion import completion_token
from gateway.executor import HttpClient
from gateway.jobs import Settlement
from gateway.registry import Registry
from gateway.settings import Settings, load
from gateway.signing import SigningKey
from gateway.store import ClaimRequest, Store, Worker

CONFIG = """
[targets.echo]
executor = "python"
callable = "json:dumps"

[targets.resize]
executor = "python"
callable = "json:loads"
lane = "low"
retry = { max_attempts = 2, base = "2s", cap = "1m" }

[triggers.github]
verifier = "github"
secrets = ["the-secret"]
body_limit = 30000
[[triggers.github.routes]]
when = "headers.\\"x-github-event\\" == 'push'"
target = "echo"
[[triggers.github.routes]]
when = "headers.\\"x-github-event\\" == 'push'"
target = "resize"
payload = "{ref: body.ref}"
key = "body.ref"
lane = "critical"
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that serves: `client` speaks to it, `port` is for raw sockets, `store` looks behind it."""

    settings: Settings
    store: Store
    registry: Registry
    port: int
    client: httpx.AsyncClient

    async def queued(self) -> int:
        """Every job that was ever taken in."""
        counters = (await self.store.inspect()).counters
        return sum(value for name, value in counters.items() if name.startswith("submitted:"))


class QuietServer(uvicorn.Server):
    """Leaves the signals to pytest, and ends when it is told to, not at its next look at the clock."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def end(self) -> None:
        self._told.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._told.wait()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As it is, but for the tenth of a second that is given to connections even where there are none."""
        state = self.server_state
        for _ in range(10):  # those that were just closed are seen to be
            if not (state.connections or state.tasks):
                break
            await asyncio.sleep(0)
        else:
            return await super().shutdown(sockets)
        for server in self.servers:
            server.close()
            await server.wait_closed()
        await self.lifespan.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def settings_for(directory: Path, redis_url: str, namespace: str, **environ: str) -> Settings:
    """The settings of CONFIG over one Redis; `environ` as the environment has it."""
    (directory / "gateway.toml").write_text(CONFIG)
    own = {"GATEWAY_REDIS_URL": redis_url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    return load(own | environ, directory)


@contextlib.asynccontextmanager
async def running(
    settings: Settings, *, http: HttpClient | None = None, clock: Callable[[], float] = time.time
) -> AsyncIterator[Running]:
    """Serves until the block ends; `http` is what it calls out with, if not as the settings have it."""
    store, registry = open_store(settings), Registry.build(settings)
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio does it for sockets that it makes itself; without it each answer waits 40 ms for an acknowledgement
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = listener.getsockname()[1]
    server = QuietServer(uvicorn_config(create_app(settings, store, registry, http=http, clock=clock), loop="none"))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, verify=False) as client:
            yield Running(settings, store, registry, port, client)
    finally:
        server.end()
        await asyncio.wait_for(serving, 15)
        await store.aclose()
        listener.close()


async def claim(store: Store, partition: int = 0) -> tuple[Worker, list[str], list[str]]:
    """Claims all that is pending in a partition: the worker, and ids and tokens in order."""
    keyspace = store.keyspaces[partition]
    worker = Worker(store.client, keyspace, uuid.uuid4().hex, store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    request: ClaimRequest = worker.next_claim(100, suspects=True)
    claimed = (await worker.exchange([], request)).claimed
    return worker, [job.job_id for job in claimed], [job.token for job in claimed]


def bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def park(api: Running) -> tuple[str, str]:
    """A parked job's id and the token that its target was sent."""
    job_id = (await api.client.post("/jobs", json={"target": "echo"})).json()["job_id"]
    worker, ids, tokens = await claim(api.store)
    assert ids == [job_id]
    await worker.exchange([Settlement(job_id, tokens[0], "parked", delay_ms=60_000, reason="500")], None)
    key = SigningKey.parse(api.store.signing_keys[0].reveal())
    return job_id, completion_token(key, job_id, tokens[0])

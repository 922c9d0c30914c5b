"""Red and green of `/livez` and `/readyz`, on both roles, for every fault of the page."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.installation import Installation
from tests.observability.scene import metrics_port
from tests.proxy import Proxy
from tests.servers import Server
from tests.waiting import until, until_sync

pytestmark = pytest.mark.long

CONFIG = """
[targets.block]
executor = "python"
callable = "more_tasks:block"
"""
GREEN, RED = 200, 503
SILENT = None


class Site:
    """A gateway and a dispatcher on a Redis, and how they say they are."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.here = Installation(folder)
        self.here.configure(more=CONFIG, stuck_after="1s", lease="1s", slots=2)
        (folder / "more_tasks.py").write_text(Path(__file__).with_name("tasks.py").read_text())
        self.here.serve(server.url)
        self.gateway = str(self.here.client.base_url).rstrip("/")
        self.process = self.here.dispatch(server.url)
        self.process.await_line("dispatcher started")
        self.dispatcher = f"http://127.0.0.1:{metrics_port(self.process)}"

    def status(self, url: str, path: str) -> int | None:
        """None if nothing answers within 2 s."""
        try:
            return httpx.get(f"{url}{path}", timeout=2.0, trust_env=False).status_code
        except httpx.TransportError:
            return SILENT

    def become(self, url: str, path: str, *wanted: int | None, timeout_s: float = 20.0) -> None:
        until_sync(lambda: self.status(url, path) in wanted, timeout_s=timeout_s, every_s=0.1)

    def all_green(self) -> None:
        for url in (self.gateway, self.dispatcher):
            for path in ("/livez", "/readyz"):
                self.become(url, path, GREEN)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(tcp=True) as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, server: Server) -> Iterator[Site]:
    site = Site(tmp_path, server)
    try:
        site.all_green()
        yield site
    finally:
        site.here.close()


def test_redis_faults_turn_readiness_red_and_leave_life_green(site: Site, server: Server) -> None:
    for begin, end in ((server.suspend, server.resume), (server.kill, server.start)):  # slow without end, and gone
        begin()
        for url in (site.gateway, site.dispatcher):
            site.become(url, "/readyz", RED)
            assert site.status(url, "/livez") == GREEN
        end()
        site.all_green()
    with server.client() as redis:
        redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        for url in (site.gateway, site.dispatcher):
            site.become(url, "/readyz", RED)
            assert "read-only" in httpx.get(f"{url}/readyz", trust_env=False).json()["reason"]
        redis.execute_command("REPLICAOF", "NO", "ONE")
        site.all_green()
        redis.config_set("maxmemory", "1")
        site.become(site.gateway, "/readyz", RED)
        assert site.status(site.dispatcher, "/readyz") == GREEN
        assert site.status(site.gateway, "/livez") == GREEN
        redis.config_set("maxmemory", "0")
    site.all_green()


def test_dispatcher_that_hangs_or_is_gone_turns_the_gateway_red_once_work_waits(site: Site) -> None:
    site.process.signal(signal.SIGSTOP)
    assert site.status(site.dispatcher, "/livez") is SILENT
    assert site.status(site.gateway, "/readyz") == GREEN
    job_id = site.here.submit("work", {})
    site.become(site.gateway, "/readyz", RED)
    assert "gateway dispatch" in httpx.get(f"{site.gateway}/readyz", trust_env=False).json()["reason"]
    assert site.status(site.gateway, "/livez") == GREEN
    site.process.signal(signal.SIGCONT)
    site.here.ended(job_id)
    site.all_green()
    site.process.stop()
    site.here.submit("work", {})
    site.become(site.gateway, "/readyz", RED)


def test_event_loop_that_is_blocked_does_not_answer_and_turns_the_gateway_red(site: Site) -> None:
    site.here.submit("block", 8)
    site.become(site.dispatcher, "/livez", SILENT)
    site.here.submit("work", {})
    site.become(site.gateway, "/readyz", RED)
    site.become(site.dispatcher, "/livez", RED, GREEN)
    site.all_green()


def test_work_that_waits_for_busy_slots_is_not_stuck(site: Site) -> None:
    running = [site.here.submit("work", {"s": 3}) for _ in range(2)]
    waiting = site.here.submit("work", {})
    site.here.reached(running[0], "running")
    until_sync(lambda: site.here.client.get("/lanes").json()["lanes"][1]["oldest_seconds"] > 1.5)
    for url in (site.gateway, site.dispatcher):
        assert site.status(url, "/readyz") == GREEN
    site.here.ended(waiting)


@pytest.fixture
async def slow(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server) as proxy:
        yield proxy


async def test_redis_that_is_slow_turns_readiness_red(slow: Proxy, tmp_path: Path) -> None:
    here = Installation(tmp_path)
    here.configure()
    try:
        process = here.start("serve", "--port", "0", env={"GATEWAY_REDIS_URL": slow.url})
        await asyncio.to_thread(here.reach, process)

        async def ready() -> bool:
            return (await asyncio.to_thread(here.client.get, "/readyz")).status_code == GREEN

        async def unready() -> bool:
            return not await ready()

        slow.delay_s = 1.2
        await until(unready)
        assert (await asyncio.to_thread(here.client.get, "/livez")).status_code == GREEN
        slow.delay_s = 0.0
        await until(ready)
    finally:
        await asyncio.to_thread(here.close)

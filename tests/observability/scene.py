"""An installation that works for a while, and to which things happen: all that metrics are there to show."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.installation import Installation, Process
from tests.observability.receiver import Receiver
from tests.observed import value
from tests.servers import Server, free_ports
from tests.waiting import until_sync

LEASE_S = 1.0
SECRET = "the-secret-of-the-trigger"
CONFIG = """
[lanes]
order = ["critical", "default", "low"]

[retention]
finished_max = 20

[egress]
allow = ["127.0.0.1/32"]

[targets.block]
executor = "python"
callable = "more_tasks:block"

[targets.doubt]
executor = "python"
callable = "more_tasks:doubt"
lane = "critical"
retry = {{ policy = "fixed", base = "20ms", cap = "1s", max_attempts = 3 }}

[targets.good]
executor = "http"
url = "{receiver}/200"
lane = "low"

[targets.bad]
executor = "http"
url = "{receiver}/500"
retry = {{ policy = "fixed", base = "20ms", cap = "1s", max_attempts = 2 }}

[targets.nowhere]
executor = "http"
url = "http://127.0.0.1:{closed}/"
retry = {{ policy = "fixed", base = "20ms", cap = "1s", max_attempts = 1 }}

[triggers.shop]
verifier = "github"
secrets = ["{secret}"]
[[triggers.shop.routes]]
when = "headers.\\"x-github-event\\" == 'push'"
target = "work"

[schedules.often]
cron = "* * * * * *"
target = "work"
payload = {{}}
"""


@dataclass(slots=True)
class Scene:
    """A gateway of two workers and three dispatchers on a Redis; `sent` counts the jobs by target."""

    installation: Installation
    server: Server
    receiver: Receiver
    gateway: Process
    dispatchers: list[Process]
    ports: list[int]
    """Where the metrics are: the gateway's first, then the dispatchers' in order."""

    sent: dict[str, int] = field(default_factory=dict)

    def submit(self, target: str, payload: Any = None, **options: Any) -> str:
        job_id = self.installation.submit(target, payload, **options)
        self.sent[target] = self.sent.get(target, 0) + 1
        return job_id

    def submit_many(self, target: str, payloads: list[Any]) -> list[str]:
        ids = self.installation.submit_many([{"target": target, "payload": payload} for payload in payloads])
        self.sent[target] = self.sent.get(target, 0) + len(ids)
        return ids

    def deliver(self, event: str, *, secret: str = SECRET, delivery: str = "d1") -> httpx.Response:
        body = b'{"ref":"main"}'
        mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"x-hub-signature-256": f"sha256={mac}", "x-github-event": event, "x-github-delivery": delivery}
        return self.installation.client.post(
            "/hooks/shop", content=body, headers=headers | {"content-type": "application/json"}
        )

    def pause(self, target: str) -> None:
        assert self.installation.client.post(f"/targets/{target}/pause").status_code == 200
        self.submit(target)

    def met_errors(self, port: int) -> bool:
        return value(self.scrape(port), "gateway_redis_errors_total") > 0

    def stumble(self) -> bool:
        """Redis stops for as long as a round trip takes to fail; False, so that one looks again."""
        self.server.suspend()
        self.installation.client.get("/jobs")
        self.server.resume()
        return False

    def kill_a_worker(self) -> None:
        """kill -9 of one gateway worker; returns once its place is taken."""
        before = children_of(self.gateway.pid)
        os.kill(before[-1], signal.SIGKILL)
        until_sync(lambda: len(set(children_of(self.gateway.pid)) - set(before)) >= 1, timeout_s=60)

    def scrape(self, port: int) -> str:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5, trust_env=False).text


def metrics_port(process: Process) -> int:
    port: int = process.await_line("health and metrics")["port"]
    return port


@contextlib.contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Started, and ready for work."""
    installation = Installation(folder)
    with Server() as server, Receiver() as receiver:
        more = CONFIG.format(receiver=receiver.url, secret=SECRET, closed=free_ports()[0])
        installation.configure(more=more, lease=f"{LEASE_S:g}s", slots=10)
        (folder / "more_tasks.py").write_text(Path(__file__).with_name("tasks.py").read_text())
        try:
            gateway = installation.start(
                "serve", "--port", "0", "--workers", "2", env={"GATEWAY_REDIS_URL": server.url}
            )
            installation.reach(gateway)
            dispatchers = [installation.dispatch(server.url) for _ in range(3)]
            for process in dispatchers:
                process.await_line("dispatcher started")
            ports = [installation.client.base_url.port or 0, *map(metrics_port, dispatchers)]
            yield Scene(installation, server, receiver, gateway, dispatchers, ports)
        finally:
            installation.close()


def mixed_work(scene: Scene) -> None:
    """Jobs of every kind and every end; one dispatcher is killed meanwhile, one hangs for longer than its lease."""
    here = scene.installation
    callback = {"url": f"{scene.receiver.url}/200"}
    ids = scene.submit_many("work", [{}] * 200)
    ids += [scene.submit("work", {}, callback=callback), scene.submit("work", {}, delay=0.3), scene.submit("doubt")]
    scene.submit_many("good", [{}] * 20)
    ids += [scene.submit("good", {}), scene.submit("bad", {}), scene.submit("nowhere", {}), scene.submit("fail")]
    cancelled = scene.submit("work", {}, delay=60)
    assert here.client.delete(f"/jobs/{cancelled}").status_code == 200
    for event, secret in (("push", SECRET), ("push", SECRET), ("star", SECRET), ("push", "another")):
        scene.deliver(event, secret=secret)
    for path in ("/nowhere", "/jobs/unknown", "/jobs?color=red"):
        here.client.get(path)
    here.client.post("/jobs", content=b"{")
    here.client.post("/jobs", json={"target": "unknown"})
    dead = here.ended(ids[-1])
    assert dead["status"] == "dead"
    assert here.client.post(f"/dlq/{ids[-1]}/retry").status_code == 200
    scene.submit_many("work", [{"s": 0.7}] * 30)
    until_sync(lambda: here.client.get("/jobs?status=running").json()["jobs"] != [])
    scene.dispatchers[0].kill()
    scene.dispatchers[1].signal(signal.SIGSTOP)
    until_sync(lambda: lost(scene), timeout_s=60)
    scene.dispatchers[1].signal(signal.SIGCONT)
    scene.submit("block", 0.8)
    until_sync(lambda: idle(scene), timeout_s=60)
    scene.pause("good")
    until_sync(lambda: all(map(scene.met_errors, (scene.ports[0], scene.ports[2]))) or scene.stumble(), timeout_s=60)


def idle(scene: Scene) -> bool:
    """Is no job under way? The schedule makes one a second, which is soon done."""
    text = scene.scrape(scene.ports[0])
    return not any(value(text, f"gateway_{name}") for name in ("lane_depth", "jobs_due", "jobs_running"))


def break_down(scene: Scene) -> None:
    """All that alerts are for and that has not happened yet."""
    with scene.server.client() as redis:
        key = next(iter(redis.scan_iter("*:ft:good")))
        redis.hset(key, "paused", 0)
        redis.hset(key, "open_until", 2**52)
    scene.submit("nowhere", callback={"url": f"{scene.receiver.url}/400"})
    scene.submit_many("nowhere", [{}] * 3)
    scene.stumble()
    until_sync(lambda: value(scene.scrape(scene.ports[0]), "gateway_callbacks_total", event="dead") >= 1, timeout_s=60)
    for process in scene.dispatchers:
        process.kill()
    until_sync(lambda: accepted(scene), timeout_s=60)
    scene.submit("doubt", delay=0.1)


def accepted(scene: Scene) -> bool:
    with contextlib.suppress(AssertionError):
        scene.submit("doubt")
        return True
    return False


def children_of(pid: int) -> list[int]:
    """The worker processes of a manager: its children that serve."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"spawn_main" in (proc / "cmdline").read_bytes():
                found.append(int(proc.name))
    return sorted(found)


def lost(scene: Scene) -> bool:
    """Were both seen to be gone?"""
    text = scene.scrape(scene.ports[0])
    return "gateway_dispatcher_deaths_total 2.0" in text

"""What an outage of Redis is told in: the first of each kind at once, the rest counted, and its end once."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import structlog
from redis.exceptions import RedisError
from structlog.testing import capture_logs

import gateway
from gateway.folding import BACK, EVERY_S, FOLDED, MOST_KINDS, OUTAGE, Folding
from gateway.store.client import BLIP_S, Client
from tests.imports import Module, read_modules
from tests.servers import Server
from tests.waiting import until

ROOT = Path(gateway.__file__).parent.parent
STORE_FAULTS = {"StoreUnavailable", "StoreError", "RedisError"}

ONCE = {
    "Redis is away; answering 503 until it is back": "logged once, at the start",
}
"""Warnings of an outage that cannot come again and again."""


class Log:
    """What is written through a folding, at a time that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.folding = Folding(clock=lambda: self.now_s)
        self.lines: list[dict[str, Any]] = []

    def write(self, event: str, *, method: str = "warning", **facts: Any) -> None:
        with contextlib.suppress(structlog.DropEvent):
            self.lines.append(dict(self.folding(None, method, {"event": event, **facts})))


@pytest.fixture
def log() -> Log:
    return Log()


def test_warning_that_comes_again_is_told_at_once_and_then_every_ten_seconds_with_the_count(log: Log) -> None:
    for tenth in range(250):
        log.now_s = 100 + tenth / 10
        log.write("reap failed", error="gone")
    assert [line.get("repeated") for line in log.lines] == [None, 99, 99]
    assert all(line["error"] == "gone" for line in log.lines)


def test_kinds_are_folded_apart(log: Log) -> None:
    for _ in range(3):
        log.write("reap failed")
        log.write("exchange failed")
        log.write("schedules not registered")
        log.write("schedules not registered", method="error")
        log.write("delivery unrouted", method="info", trigger="one")
        log.write("delivery unrouted", method="info", trigger="two")
    assert len(log.lines) == 6


def test_lines_of_single_jobs_and_of_others_are_never_folded(log: Log) -> None:
    for _ in range(20):
        log.write("reap failed", job_id="one")
        log.write("job dead", job_id="one", error="KeyError")
        log.write("a customer's own warning", error="gone")
    assert len(log.lines) == 60


def test_end_of_an_outage_is_told_once_with_what_was_left_out(log: Log) -> None:
    for tenth in range(50):
        log.now_s = 100 + tenth / 10
        log.write("reap failed")
        log.write("exchange failed")
    log.write(BACK, after_s=4.9)
    log.now_s += 0.5
    log.write(BACK, after_s=5.0)  # another connection, which noticed later
    assert log.lines[2:] == [{"event": BACK, "after_s": 4.9, "repeated": 98}]
    log.now_s += EVERY_S
    log.write("reap failed")
    log.write(BACK, after_s=1.0)
    assert log.lines[3:] == [{"event": "reap failed"}, {"event": BACK, "after_s": 1.0}]


def test_flood_of_kinds_takes_bounded_memory(log: Log) -> None:
    for number in range(3 * MOST_KINDS):
        log.write("delivery unrouted", method="info", trigger=f"trigger-{number}")
    assert len(log.lines) == MOST_KINDS + 1


def test_every_line_of_several_threads_is_told_or_counted(log: Log) -> None:
    def write() -> None:
        for _ in range(2000):
            log.write("leases not renewed")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.now_s += EVERY_S
    log.write("leases not renewed")
    assert [line.get("repeated") for line in log.lines] == [None, 4 * 2000 - 1]


@cache
def modules() -> dict[str, Module]:
    return read_modules(ROOT, "gateway")


def warnings_of_outages() -> dict[str, str]:
    """What our own code logs where Redis failed it, and where; lines about one job aside."""
    found = {}
    for module in modules().values():
        for handler in (node for node in ast.walk(module.tree) if isinstance(node, ast.ExceptHandler)):
            caught = {node.id for node in ast.walk(handler.type or ast.Pass()) if isinstance(node, ast.Name)}
            if not caught & STORE_FAULTS or module.name.startswith("gateway.cli"):
                continue
            for call in (node for node in ast.walk(handler) if isinstance(node, ast.Call)):
                called = call.func
                is_log = isinstance(called, ast.Attribute) and called.attr in ("warning", "error")
                if is_log and not any(word.arg == "job_id" for word in call.keywords):
                    event = call.args[0]
                    assert isinstance(event, ast.Constant), module.place(call.lineno)
                    found[str(event.value)] = module.place(call.lineno)
    return found


def test_every_warning_of_an_outage_is_folded() -> None:
    found = warnings_of_outages()
    assert len(found) > 15
    assert {event: place for event, place in found.items() if event not in FOLDED | ONCE.keys()} == {}


def test_every_folded_event_is_logged_somewhere() -> None:
    texts = {
        node.value
        for module in modules().values()
        if module.name != "gateway.folding"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
    }
    assert texts >= OUTAGE


async def test_client_says_once_that_redis_is_back_when_it_was_away() -> None:
    with Server(tcp=True) as server, capture_logs() as lines:
        client = Client.to(server.url)
        try:
            await client.ping()
            server.kill()
            until_s = monotonic() + 2 * BLIP_S

            async def failed_for_long() -> bool:
                with pytest.raises((RedisError, OSError)):
                    await client.ping()
                return monotonic() > until_s

            await until(failed_for_long, every_s=0.05)
            assert lines == []
            server.start()
            for _ in range(3):
                await client.ping()
        finally:
            await client.aclose()
    assert [line["event"] for line in lines] == [BACK]
    assert lines[0]["after_s"] >= BLIP_S


async def test_client_says_nothing_when_one_connection_was_lost(valkey_server: Server) -> None:
    client = Client.to(valkey_server.url)
    client.blip_s = 3600.0
    try:
        with capture_logs() as lines:
            client.failed(ConnectionError("lost"))
            await client.ping()
    finally:
        await client.aclose()
    assert lines == []


def test_configured_log_folds() -> None:
    program = (
        "import structlog; from gateway.logs import configure_logging; from gateway.settings import GatewaySettings\n"
        "configure_logging(GatewaySettings())\n"
        "for _ in range(9): structlog.get_logger().warning('reap failed', error='gone')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.count("reap failed") == 1

"""The doctor finds each planted fault, names it and its mend, and finds nothing where there is none."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.doctor import CHECKS, examine
from gateway.cli.doctor.finding import Finding, Patient
from gateway.cli.doctor.timing import check_clock
from gateway.dispatch.file_schedules import register
from gateway.opening import make_store
from gateway.registry import Registry
from gateway.settings import load
from gateway.store import Store
from tests.faults.toxics import ToxicProxy
from tests.proxy import Proxy
from tests.servers import Server

TARGET = '[targets.resize]\nexecutor = "python"\ncallable = "json:dumps"\n'


async def findings(folder: Path, url: str, *, text: str = TARGET, checks: Any = CHECKS, **environ: str) -> list[Any]:
    """What the doctor finds: check, level and detail."""
    (folder / "gateway.toml").write_text(text)
    ports = {"PORT": "0", "GATEWAY_GATEWAY_DISPATCHER_PORT": "0"}
    settings = load({"GATEWAY_REDIS_URL": url} | ports | environ, folder)
    store = make_store(settings, url)
    try:
        return [(name, each.level, each.detail) async for name, each in examine(Patient(settings, store), checks)]
    finally:
        await store.aclose()


def only(found: list[Any], check: str, level: str) -> str:
    """The detail of the one finding of that check which is not well; nothing else may be a fault."""
    wrong = [each for each in found if each[1] in ("fault", "warning") and each[0] == check]
    assert [each[1] for each in wrong] == [level], found
    assert {each[0] for each in found if each[1] == "fault"} <= {check, "redis"}, found
    return str(wrong[0][2])


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with nothing to find fault with."""
    with Server(extra=["--appendonly", "yes"]) as server:
        yield server


async def test_nothing_is_found_where_all_is_well(server: Server, tmp_path: Path) -> None:
    found = await findings(tmp_path, server.url)
    assert list(dict.fromkeys(each[0] for each in found)) == list(CHECKS)
    assert [each for each in found if each[1] != "ok"] == [
        ("dispatchers", "warning", "no dispatcher is alive, 0 jobs wait: start gateway dispatch")
    ]


async def test_wrong_target_is_found(server: Server, tmp_path: Path) -> None:
    found = await findings(tmp_path, server.url, text=TARGET.replace("python", "pithon"))
    assert "targets.resize.executor" in only(found, "configuration", "fault")


async def test_redis_that_is_away_is_told_once(tmp_path: Path) -> None:
    found = await findings(tmp_path, f"unix://{tmp_path}/none.sock")
    assert [each[1] for each in found].count("fault") == 1
    assert "Redis cannot be reached" in next(each[2] for each in found if each[1] == "fault")


@pytest.mark.parametrize(
    ("settings", "check", "level", "says"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "memory", "fault", "CONFIG SET maxmemory-policy noeviction"),
        ({"maxmemory": "1200000"}, "memory", "warning", "raise maxmemory"),
        ({"appendonly": "no", "save": ""}, "persistence", "warning", "its restart loses every job"),
        ({"appendonly": "no", "save": "900 1"}, "persistence", "warning", "since the last snapshot"),
        ({"appendfsync": "no"}, "persistence", "warning", "CONFIG SET appendfsync everysec"),
    ],
)
async def test_setting_of_the_server_is_found(
    server: Server, tmp_path: Path, settings: dict[str, str], check: str, level: str, says: str
) -> None:
    with server.client() as client:
        for name, value in settings.items():
            client.config_set(name, value)
    assert says in only(await findings(tmp_path, server.url), check, level)


async def test_server_without_a_log_is_told_of_once(tmp_path: Path) -> None:
    """The start's remarks say the same in their words; the doctor's own checks know more."""
    with Server(extra=["--appendonly", "no"]) as server:
        found = await findings(tmp_path, server.url)
    assert [name for name, level, detail in found if level != "ok" and "appendonly" in detail] == ["persistence"]


async def test_replica_is_found(tmp_path: Path) -> None:
    with Server(tcp=True) as primary, Server(extra=["--replicaof", "127.0.0.1", str(primary.port)]) as replica:
        found = await findings(tmp_path, replica.url)
    assert "name its primary" in next(each[2] for each in found if each[:2] == ("version", "fault"))


async def test_old_server_is_found(server: Server, tmp_path: Path) -> None:
    async with OldProxy(server) as proxy:
        found = await findings(tmp_path, proxy.url)
    assert "Redis 6.2.4" in only(found, "version", "fault")
    assert "upgrade it" in only(found, "version", "fault")


async def test_user_who_may_not_run_scripts_is_found(tmp_path: Path) -> None:
    with Server(tcp=True, extra=["--appendonly", "yes"]) as server:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "worker", "on", ">hush", "~*", "&*", "+@all", "-@scripting")
        url = server.url.replace("redis://", "redis://worker:hush@")
        found = await findings(tmp_path, url)
    told = next(each[2] for each in found if each[:2] == ("redis", "fault"))
    assert "does not let this user do what is needed (NOPERM: no permissions to run the 'eval" in told
    assert "hush" not in str(found)


@pytest.mark.parametrize(("ahead_s", "level"), [(30, "warning"), (-300, "fault")])
async def test_clocks_that_disagree_are_found(server: Server, tmp_path: Path, ahead_s: int, level: str) -> None:
    ours: Callable[[], float] = lambda: time.time() + ahead_s  # noqa: E731
    found = await findings(tmp_path, server.url, checks={"clock": partial(check_clock, clock=ours)})
    assert f"{abs(ahead_s)} s apart" in only(found, "clock", level)


async def test_far_away_redis_is_found(server: Server, tmp_path: Path) -> None:
    async with ToxicProxy(server, random.Random(1)) as proxy:
        proxy.toxics.latency_s = 0.03
        found = await findings(tmp_path, proxy.url, checks={"latency": CHECKS["latency"]})
    assert "closer together" in only(found, "latency", "warning")


async def test_redis_that_is_open_to_everyone_is_found(tmp_path: Path) -> None:
    with Server(tcp=True, extra=["--appendonly", "yes"]) as server, server.client() as client:
        client.config_set("protected-mode", "no")
        assert "not open" in only_ok(await findings(tmp_path, server.url), "exposure")
        client.config_set("bind", "* -::*")
        found = await findings(tmp_path, server.url)
        client.config_set("bind", "127.0.0.1")
    assert "set a password" in only(found, "exposure", "fault")


def only_ok(found: list[Any], check: str) -> str:
    return str(next(each[2] for each in found if each[:2] == (check, "ok")))


async def test_gateway_that_is_open_without_a_key_is_found(server: Server, tmp_path: Path) -> None:
    open_ = {"GATEWAY_GATEWAY_HOST": "0.0.0.0"}
    assert "gateway apikeys create" in only(await findings(tmp_path, server.url, **open_), "ports", "fault")
    keyed = {"GATEWAY_API_KEY": "gwk_a_0123456789abcdef"}
    assert only_ok(await findings(tmp_path, server.url, **open_, **keyed), "ports")
    found = await findings(tmp_path, server.url, GATEWAY_GATEWAY_DISPATCHER_HOST="0.0.0.0")
    assert "metrics" in only(found, "ports", "warning")


async def test_port_that_something_else_has_is_found(server: Server, tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        writer.close()

    squatter = await asyncio.start_server(greet, "127.0.0.1", 0, family=socket.AF_INET)
    async with squatter:
        port = squatter.sockets[0].getsockname()[1]
        found = await findings(tmp_path, server.url, GATEWAY_GATEWAY_PORT=str(port))
    assert "set another port" in only(found, "ports", "fault")


async def test_paused_lane_is_found(server: Server, tmp_path: Path) -> None:
    settings = load({"GATEWAY_REDIS_URL": server.url}, tmp_path)
    store = make_store(settings, server.url)
    await store.configure()
    await store.control_lane("low", paused=True)
    await store.aclose()
    found = await findings(tmp_path, server.url)
    assert ("dispatchers", "warning", "the lane low is paused: gateway lanes resume low") in found


LIMITED = f"{TARGET}limit = {{ concurrency = 3 }}\n"
SCHEDULE = '[schedules.tick]\ncron = "@daily"\ntarget = "resize"\n'


async def test_limit_that_redis_has_otherwise_is_found_and_left_so(server: Server, tmp_path: Path) -> None:
    assert only_ok(await findings(tmp_path, server.url, text=LIMITED), "registered")  # nothing has been registered
    store = await Store.open(server.url, flows={"resize": {"concurrency": 5}})
    await store.aclose()
    for _ in range(2):
        found = await findings(tmp_path, server.url, text=LIMITED)
        assert "resize are not those in Redis" in only(found, "registered", "warning")


async def test_schedule_that_redis_has_otherwise_or_not_is_found(server: Server, tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(LIMITED + SCHEDULE)
    registry = Registry.build(load({"GATEWAY_REDIS_URL": server.url}, tmp_path))
    store = await Store.open(server.url, flows=registry.flows, lanes=("critical", "default", "low"))
    try:
        found = await findings(tmp_path, server.url, text=LIMITED + SCHEDULE)
        assert "the schedules tick are" in only(found, "registered", "warning")
        await register(store, registry.schedules)
        assert only_ok(await findings(tmp_path, server.url, text=LIMITED + SCHEDULE), "registered")
        other = SCHEDULE.replace("@daily", "@hourly")
        assert "tick" in only(await findings(tmp_path, server.url, text=LIMITED + other), "registered", "warning")
    finally:
        await store.aclose()


async def test_check_that_fails_does_not_keep_the_others_back(server: Server, tmp_path: Path) -> None:
    async def ok(patient: Patient) -> AsyncIterator[Finding]:
        yield Finding("ok", "fine")

    found = await findings(tmp_path, f"unix://{tmp_path}/none.sock", checks={"redis": CHECKS["redis"], "mine": ok})
    assert [each[:2] for each in found] == [("redis", "fault"), ("mine", "ok")]


class OldProxy(Proxy):
    """Has the server say that it is Redis 6.2.4, in as many bytes as what it says itself."""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        while data := await reader.read(1 << 16):
            data = data.replace(b"redis_version:7.2.4", b"redis_version:6.2.4")
            writer.write(data.replace(b"valkey_version:", b"another_vname_:"))
            await writer.drain()

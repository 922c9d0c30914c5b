"""Rows about what runs out, and about versions side by side."""

from __future__ import annotations

import contextlib
import resource
import socket
from pathlib import Path

import httpx

from tests.faults.load import short, steady
from tests.faults.rows import EVERYWHERE, Injected, row
from tests.faults.rows.targets import await_over, submit
from tests.faults.stage import Setup, Stage
from tests.waiting import until_sync

NEWER = 99
DESCRIPTORS = 64
IDLE = 200


@row("23", "the gateway runs out of file descriptors", on=EVERYWHERE, setup=Setup(dispatchers=1))
def exhaust_descriptors(stage: Stage) -> Injected:
    """What is connected is served on, and so is everybody else once there is room."""
    assert stage.api is not None
    pid, client = stage.api.pid, stage.installation.client
    injected = Injected(f"{IDLE} idle connections at a limit of {DESCRIPTORS} descriptors", 1)
    with stage.load(short):
        stage.await_acks(30)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    injected.expect(client.get("/livez").status_code == 200, "not alive before")  # and its connection is kept
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, before[1]))
    with stage.fault("no descriptors"), contextlib.ExitStack() as idle:
        for _ in range(IDLE):
            idle.enter_context(socket.create_connection(("127.0.0.1", client.base_url.port), timeout=5))
        until_sync(lambda: open_descriptors(pid) >= DESCRIPTORS - 1, timeout_s=60)
        injected.notes = f"{open_descriptors(pid)} were open"
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{client.base_url}/livez", timeout=2, trust_env=False)
            injected.expect(False, "there was a descriptor left for another connection")
        injected.expect(client.get("/livez").status_code == 200, "who was connected before is not served")
        injected.expect(not stage.api.ended, "the gateway ended")
    with stage.load(short):
        stage.await_acks(30)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    return injected


def open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@row("23b", "jobs want more memory than a dispatcher may have", on=EVERYWHERE, setup=Setup(dispatchers=1))
def exhaust_memory(stage: Stage) -> Injected:
    """They fail by themselves, and the dispatcher works on."""
    pid, jobs = stage.dispatchers[0].pid, 5
    injected = Injected("8 GB asked for at a limit of 200 MB beyond what the dispatcher has", jobs)
    with stage.load(short):
        stage.await_acks(30)
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (size + 200_000_000, before[1]))
        with stage.fault("no memory"):
            ids = submit(stage, *[{"target": "misbehave", "payload": {"what": "memory"}} for _ in range(jobs)])
            records = await_over(stage, ids)
            resource.prlimit(pid, resource.RLIMIT_AS, before)
        stage.await_acks(30)
    ends = {(record["status"], record["reason"], record["error"]["type"]) for record in records}
    injected.expect(ends == {("dead", "exhausted", "MemoryError")}, f"ended as {ends}")
    injected.expect(not stage.dispatchers[0].ended, "the dispatcher ended")
    return injected


@row("25", "data of a newer version, and versions side by side", on=EVERYWHERE)
def skew_versions(stage: Stage) -> Injected:
    """An older process refuses the data, and misreads none of it; then dispatchers are replaced one by one."""
    injected = Injected("the data wants a newer writer for a while; then each dispatcher is replaced", 3)
    with stage.load(steady) as load:
        stage.await_acks(60)
        with stage.fault("newer data"):
            _want_writer(stage, NEWER)
            until_sync(lambda: all(each.ended for each in stage.dispatchers), timeout_s=60)
            until_sync(lambda: load.refused > 3, timeout_s=60)
            codes = [each.wait(10) for each in stage.dispatchers]
            _want_writer(stage, 1)
        for at in range(len(stage.dispatchers)):
            stage.replace_dispatcher(at).await_line("dispatcher started")
        stage.await_acks(60)
        for at, old in enumerate(list(stage.dispatchers)):
            stage.replace_dispatcher(at).await_line("dispatcher started")
            injected.expect(old.stop() == 0, "a dispatcher that was replaced did not end well")
            stage.await_acks(30)
    injected.in_flight = len(codes) * stage.setup.slots
    injected.expect(set(codes) == {78}, f"dispatchers that are too old ended with {codes}")
    return injected


def _want_writer(stage: Stage, version: int) -> None:
    for partition in range(stage.place.partitions):
        prefix = f"gw:{{default:{partition}}}:"
        with stage.place.holding(prefix).client() as client:
            client.hset(f"{prefix}conf", "min_writer", str(version))
            client.delete(f"{prefix}gist")  # as who changes conf does

"""Rows about what a process shares with others of its kind: versions side by side, and descriptors that run out."""

from __future__ import annotations

import contextlib
import resource
import socket
import time

from tests.faults.load import short, steady
from tests.faults.rows import EVERYWHERE, Injected, row
from tests.faults.stage import Setup, Stage
from tests.waiting import until_sync

NEWER = 99
DESCRIPTORS = 64


@row("23", "the gateway runs out of file descriptors", setup=Setup(dispatchers=1))
def exhaust_descriptors(stage: Stage) -> Injected:
    assert stage.api is not None
    injected = Injected("200 idle connections at a limit of 64 descriptors", 1)
    with stage.load(short):
        stage.await_acks(30)
    before = resource.prlimit(stage.api.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(stage.api.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, before[1]))
    port = stage.installation.client.base_url.port
    with stage.fault("no descriptors"), contextlib.ExitStack() as idle:
        for _ in range(200):
            idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        time.sleep(2.0)  # the fault itself
        injected.expect(not stage.api.ended, "the gateway ended")
    with stage.load(short):
        stage.await_acks(30)
    return injected


@row("25", "data of a newer version, and versions side by side", on=EVERYWHERE)
def skew_versions(stage: Stage) -> Injected:
    """An older process refuses the data, and misreads none of it; then dispatchers are replaced one by one."""
    injected = Injected("the data wants a newer writer for a while; then each dispatcher is replaced", 3)
    with stage.load(steady) as load:
        stage.await_acks(60)
        with stage.fault("newer data"):
            _want_writer(stage, NEWER)
            until_sync(lambda: all(each.ended for each in stage.dispatchers), timeout_s=30)
            until_sync(lambda: load.refused > 3, timeout_s=20)
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

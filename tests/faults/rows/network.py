"""Rows about what lies between: connections torn, killed, slow or silent, scripts forgotten, calls given up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import orjson
import redis

from gateway.errors import StoreError
from gateway.jobs import Submission
from gateway.store import Store
from tests.faults.load import mixed
from tests.faults.rows import EVERYWHERE, Injected, row
from tests.faults.stage import Setup, Stage
from tests.store.site import LANES

SLOTS = 6
BOTH = 2 * SLOTS


@row("12", "scripts are forgotten all the time", on=EVERYWHERE)
def flush_scripts(stage: Stage) -> Injected:
    over, flushes = threading.Event(), 0

    def flush() -> None:
        nonlocal flushes
        clients = [server.client() for server in stage.place.servers()]
        while not over.wait(0.01):
            for client in clients:
                client.script_flush()
                with contextlib.suppress(redis.exceptions.ReadOnlyError):  # a replica has its primary's functions
                    client.function_flush()
            flushes += 1
        for client in clients:
            client.close()

    flusher = threading.Thread(target=flush)
    with stage.load(mixed) as load, stage.readers(load) as readers:
        flusher.start()
        stage.await_acks(500, timeout_s=60)
        over.set()
        flusher.join(10)
    injected = Injected("SCRIPT and FUNCTION FLUSH every 10 ms", flushes)
    injected.expect(not load.refused and not load.torn, f"{load.refused} requests refused, {load.torn} torn")
    injected.breaches += readers.wrong[:5]
    injected.notes = f"no failed request of {load.requests + readers.requests}"
    return injected


@row("12b", "every connection to Redis is killed, each second", on=EVERYWHERE)
def kill_clients(stage: Stage) -> Injected:
    """Refusals (503) that succeed when repeated are well; a reply that reaches the wrong caller never is."""
    kills = 8
    with stage.load(mixed) as load, stage.readers(load) as readers:
        stage.await_acks(50)
        for _ in range(kills):
            with stage.fault("CLIENT KILL"):
                for server in stage.place.servers():
                    with server.client() as client:
                        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                        client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            time.sleep(1.0)  # the rhythm of the fault
        stage.await_acks(50)
    injected = Injected("CLIENT KILL of all, each second", kills, in_flight=BOTH)
    injected.expect(load.torn == 0, f"{load.torn} requests got no answer")
    injected.breaches += readers.wrong[:5]
    injected.notes = (
        f"{load.refused} of {load.requests} requests were 503 and then taken; {readers.requests} tagged reads"
    )
    return injected


# a lease that outlasts all the repeats of a claim whose reply is lost again and again
@row("15", "connections to Redis are torn in the middle of commands", setup=Setup(proxied=True, lease="10s"))
def tear_connections(stage: Stage) -> Injected:
    assert stage.proxy is not None
    proxy, resets = stage.proxy, 12
    with stage.load(mixed) as load, stage.readers(load) as readers:
        for _ in range(resets):
            stage.await_acks(20)
            stage.pause(0.0, 0.1)
            with stage.fault("RST"):
                stage.background.run(proxy.reset())
        for most in (20_000, 3_000):
            proxy.toxics.limit_bytes = most
            stage.await_acks(100)
        proxy.toxics.limit_bytes = 0
        stage.await_acks(50)
    injected = Injected("RST of every connection, and of each after 20, then 3 kB", proxy.resets, in_flight=BOTH)
    injected.breaches += readers.wrong[:5]
    injected.notes = f"{load.refused} requests were 503 and then taken"
    injected.expect(stage.reclaimed() == 0, f"{stage.reclaimed()} jobs were claimed by nobody who knew, and taken back")
    return injected


@row("15b", "the way to Redis is late, slow, in pieces, and silent for a while", setup=Setup(proxied=True))
def spoil_network(stage: Stage) -> Injected:
    assert stage.proxy is not None
    toxics = stage.proxy.toxics
    with stage.load(mixed, every_s=0.1) as load, stage.readers(load) as readers:
        stage.await_acks(30)
        with stage.fault("late"):
            toxics.latency_s, toxics.jitter_s = 0.02, 0.03
            stage.await_acks(60)
        with stage.fault("slow"):
            toxics.latency_s, toxics.jitter_s, toxics.bytes_per_s = 0.0, 0.0, 300_000
            stage.await_acks(60)
        with stage.fault("pieces"):
            toxics.bytes_per_s, toxics.slice_bytes = 0.0, 7
            stage.await_acks(60)
        toxics.slice_bytes = 0
        with stage.fault("silent"):
            toxics.silent = True
            time.sleep(3.0)  # the fault itself
            toxics.silent = False
        stage.await_acks(60)
    injected = Injected("20 to 50 ms late; 300 kB/s; 7 bytes at a time; a black hole for 3 s", 4, in_flight=2 * BOTH)
    injected.breaches += readers.wrong[:5]
    injected.notes = f"{load.refused} requests were 503 and then taken"
    return injected


@row("16", "calls are given up in the middle of their replies", on=EVERYWHERE, setup=Setup(proxied=True))
def give_up(stage: Stage) -> Injected:
    if stage.proxy is not None:
        stage.proxy.toxics.jitter_s = 0.005
    with stage.load(mixed):
        stage.await_acks(30)
        given_up, wrong = stage.background.run(_give_up(stage), timeout_s=120)
        stage.await_acks(30)
    injected = Injected("calls cancelled at random instants", given_up)
    injected.breaches += wrong[:5]
    return injected


async def _give_up(stage: Stage) -> tuple[int, list[str]]:
    """Asks for records and gives up half of it at random: how often, and which answers went astray."""
    draw = stage.draw
    store = await Store.open(stage.url, namespace="elsewhere", partitions=stage.place.partitions, lanes=LANES)
    try:
        jobs = [Submission(store.new_id(1), "work", orjson.dumps({"n": n})) for n in range(40)]
        await store.submit(jobs)
        wrong: list[str] = []

        async def ask(index: int) -> None:
            try:
                record = (await store.find(jobs[index].job_id)).record
            except StoreError as error:
                wrong.append(f"tagged: {error}")
                return
            if record.job_id != jobs[index].job_id or orjson.loads(record.payload) != {"n": index}:
                wrong.append(f"tagged: asked for {jobs[index].job_id}, got {record.job_id}")

        given_up = 0
        for _ in range(60):
            tasks = [asyncio.create_task(ask(draw.randrange(40))) for _ in range(30)]
            await asyncio.sleep(draw.uniform(0.0, 0.01))
            for task in tasks[::2]:
                given_up += task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return given_up, wrong
    finally:
        await store.aclose()

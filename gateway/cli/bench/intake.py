"""Jobs over HTTP: how many one gateway process takes in, alone and in batches, and how soon they start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from enum import StrEnum

import orjson

from gateway.cli.bench.report import Figure, Report, percentile
from gateway.cli.bench.rig import NOOP, NOTE, dispatcher, fresh_store
from gateway.cli.bench.sender import Paced, request, send
from gateway.cli.bench.serving import PARSE, serving
from gateway.cli.bench.tasks import STARTS


class Part(StrEnum):
    """What is measured: jobs one by one, jobs in batches, how soon jobs start where little else happens."""

    SINGLE = "single"
    BATCH = "batch"
    LATENCY = "latency"


CONNECTIONS = 50
BATCHES_AT_ONCE = 8
BATCH = 100
EVERY_S = 0.01
JOB = {"target": NOOP, "payload": {"order": 4711, "note": "x" * 160}}
"""A job of 200 B, as clients send it."""


async def measure(url: str, *, parts: Collection[Part], jobs: int, repetitions: int) -> Report:
    """Interleaved: the bare endpoint, then the gateway, `repetitions` times, for each part in turn."""
    figures: list[Figure] = []
    if Part.SINGLE in parts or Part.BATCH in parts:
        async with serving(url) as ports:
            if Part.SINGLE in parts:
                figures += await _rates(ports, "/jobs", orjson.dumps(JOB), jobs, 1, repetitions)
            if Part.BATCH in parts:
                figures += await _rates(ports, "/jobs/batch", orjson.dumps([JOB] * BATCH), jobs, BATCH, repetitions)
    if Part.LATENCY in parts:
        figures += await _latency(url, min(jobs, 500), repetitions)
    return Report(f"{jobs:,} jobs over HTTP, one gateway process", figures)


async def _rates(
    ports: tuple[int, int], path: str, body: bytes, jobs: int, at_once: int, repetitions: int
) -> list[Figure]:
    """Jobs a second, `at_once` of them in each request; the bare side parses the same JSON."""
    gateway_port, bare_port = ports
    connections = CONNECTIONS if at_once == 1 else BATCHES_AT_ONCE
    bare: list[float] = []
    taken: list[float] = []
    sides = ((bare_port, request(PARSE, body), bare), (gateway_port, request(path, body), taken))
    for repetition in range(-1, repetitions):
        for port, text, rates in sides:
            count = max(connections, jobs // at_once // (1 if repetition >= 0 else 10))
            seconds = await send(port, lambda text=text: text, count, connections=connections)  # type: ignore[misc]
            if repetition >= 0:
                rates.append(count * at_once / seconds)
    name = f"POST {path}" if at_once == 1 else f"POST {path}, {at_once} in each"
    return [
        Figure(name, "jobs/s", tuple(taken), tuple(bare)),
        Figure(f"bare Starlette endpoint that parses the same ({connections} connections)", "jobs/s", tuple(bare)),
    ]


async def _latency(url: str, jobs: int, repetitions: int) -> list[Figure]:
    """From the request's first byte to the callable's first line, 100 jobs a second, with everything else idle."""
    half: list[float] = []
    most: list[float] = []
    bare: list[float] = []
    bare_most: list[float] = []
    async with fresh_store(url) as store, dispatcher(url, store), serving(url, store.keyspaces[0].namespace) as ports:
        for _ in range(repetitions):
            trips_ms = await _paced(ports[1], PARSE, jobs)
            bare.append(percentile(trips_ms[1], 0.5))
            bare_most.append(percentile(trips_ms[1], 0.99))
            STARTS.expect(jobs)
            sent, _ = await _paced(ports[0], "/jobs", jobs)
            async with asyncio.timeout(30):
                await STARTS.complete.wait()
            late_ms = [(STARTS.at[number] - at_s) * 1000 for number, at_s in enumerate(sent)]
            half.append(percentile(late_ms, 0.5))
            most.append(percentile(late_ms, 0.99))
    return [
        Figure("submit to start at 100 jobs/s, p50", "ms", tuple(half), tuple(bare)),
        Figure("submit to start at 100 jobs/s, p99", "ms", tuple(most), tuple(bare_most)),
        Figure("bare round trip at that pace, p50", "ms", tuple(bare)),
        Figure("bare round trip at that pace, p99", "ms", tuple(bare_most)),
    ]


async def _paced(port: int, path: str, count: int) -> tuple[list[float], list[float]]:
    """When each of `count` requests was sent (Unix seconds), and its round trip in ms; one every 10 ms."""
    sent: list[float] = []
    trips_ms: list[float] = []
    loop = asyncio.get_running_loop()
    async with Paced(port) as connection:
        began_s = loop.time()
        for number in range(count):
            await asyncio.sleep(max(0.0, began_s + number * EVERY_S - loop.time()))
            text = request(path, orjson.dumps({"target": NOTE, "payload": number}))
            at_s = time.time()
            await connection.ask(text)
            sent.append(at_s)
            trips_ms.append((time.time() - at_s) * 1000)
    return sent, trips_ms

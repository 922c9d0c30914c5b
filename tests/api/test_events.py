"""`GET /events`: what happens to jobs, as it happens, on one partition and on a cluster's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from gateway.jobs import Outcome, Settlement
from gateway.store import Worker
from gateway.store import events as feed
from tests.api.running import Running, running, settings_for
from tests.servers import Server
from tests.waiting import until


class Reader:
    """One stream: `events` as they came, `last_id` where it was."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last_id = ""
        self.kind = ""

    async def next(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """The next message's data; `kind` says which it is."""
        kind = ""
        async with asyncio.timeout(timeout_s):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "event":
                    kind = value
                elif name == "data":
                    self.kind = kind
                    facts: dict[str, Any] = orjson.loads(value)
                    return facts
        raise EOFError

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Types and jobs of the next events."""
        found = [await self.next() for _ in range(count)]
        return [(each["type"], each["job_id"]) for each in found]


@contextlib.asynccontextmanager
async def reading(api: Running, query: str = "", *, after: str = "") -> AsyncIterator[Reader]:
    headers = {"Last-Event-ID": after} if after else {}
    async with api.client.stream("GET", f"/events?{query}", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        reader = Reader(answer.aiter_lines())
        yield reader


async def submit(api: Running, target: str = "echo", **more: Any) -> str:
    answer = await api.client.post("/jobs", json={"target": target, **more})
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def work(api: Running, job_id: str, outcome: Outcome, **facts: Any) -> None:
    """Claims in the job's partition, and settles it."""
    keyspace = api.store.keyspaces[int(job_id[-2:], 16)]
    name = f"d{api.port}{outcome}{job_id[:13]}{facts.get('delay_ms', '')}"[:40]
    worker = Worker(api.store.client, keyspace, name, api.store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    claimed = (await worker.exchange([], worker.next_claim(100, suspects=True))).claimed
    job = next(each for each in claimed if each.job_id == job_id)
    await worker.exchange([Settlement(job_id, job.token, outcome, **facts)], None)


@pytest.fixture(params=[1, 4], ids=["one-partition", "four-partitions"])
async def api_of(
    request: pytest.FixtureRequest, valkey_server: Server, namespace: str, tmp_path: Path
) -> AsyncIterator[Running]:
    more = {"GATEWAY_GATEWAY_PARTITIONS": str(request.param)}
    async with running(settings_for(tmp_path, valkey_server.url, namespace, **more)) as gateway:
        yield gateway


async def test_life_of_a_job_is_told_in_order(api_of: Running) -> None:
    async with reading(api_of) as reader:
        job_id = await submit(api_of)
        await work(api_of, job_id, "retry", delay_ms=1, error='{"type":"x","message":"a secret"}')
        seen = [await reader.next() for _ in range(3)]
        assert [each["type"] for each in seen] == ["accepted", "started", "retrying"]
        assert seen[2] | {"at": ""} == {
            "type": "retrying",
            "at": "",
            "job_id": job_id,
            "target": "echo",
            "lane": "default",
            "attempt": 1,
            "delay_ms": 1,
        }
        await work(api_of, job_id, "dead", reason="fatal")
        await api_of.client.post(f"/dlq/{job_id}/retry")
        await api_of.client.delete(f"/jobs/{job_id}")
        seen = [await reader.next() for _ in range(4)]
        assert [each["type"] for each in seen] == ["started", "dead", "replayed", "cancelled"]
        assert seen[1]["reason"] == "fatal"


async def test_filters_let_pass_what_they_name(api: Running) -> None:
    other = await submit(api, "resize")
    async with (
        reading(api, "target=resize&type=cancelled,accepted") as by_target,
        reading(api, "lane=default") as by_lane,
        reading(api, f"job_id={other}") as by_job,
    ):
        first, second = await submit(api), await submit(api, "resize")
        for job_id in (first, second, other):
            await api.client.delete(f"/jobs/{job_id}")
        assert await by_target.take(3) == [("accepted", second), ("cancelled", second), ("cancelled", other)]
        assert await by_lane.take(2) == [("accepted", first), ("cancelled", first)]
        assert await by_job.take(1) == [("cancelled", other)]


async def test_reader_misses_nothing_and_sees_nothing_twice_when_it_comes_back(api_of: Running) -> None:
    async with reading(api_of) as reader:
        ids = [await submit(api_of) for _ in range(8)]
        first = await reader.take(3)
    ids += [await submit(api_of) for _ in range(8)]
    async with reading(api_of, after=reader.last_id) as again:
        ids += [await submit(api_of) for _ in range(8)]
        rest = await again.take(21)
    assert sorted(job_id for _, job_id in first + rest) == sorted(ids)


async def test_reader_goes_on_in_the_middle_of_a_batch(api: Running) -> None:
    async with reading(api) as reader:
        answer = await api.client.post("/jobs/batch", json=[{"target": "echo"}] * 250)
        ids = [each["job_id"] for each in answer.json()["results"]]
        before = [job_id for _, job_id in await reader.take(130)]
    async with reading(api, after=reader.last_id) as again:
        after = [job_id for _, job_id in await again.take(120)]
    assert before + after == ids


async def test_gap_is_told_when_what_was_missed_is_gone(api: Running) -> None:
    async with reading(api) as reader:
        await submit(api)
        await reader.take(1)
    await api.store.client.hset(f"{api.store.keyspaces[0].prefix}conf", "followed_until", 1)
    await submit(api)
    async with reading(api, after=reader.last_id) as again:
        await again.next()
        assert again.kind == "gap"
        job_id = await submit(api)
        while (seen := await again.next())["job_id"] != job_id:
            pass
        assert seen["type"] == "accepted"


async def test_nothing_is_written_while_nobody_follows(api: Running) -> None:
    await submit(api)
    assert await api.store.client.exists(api.store.keyspaces[0].events) == 0


async def test_window_is_bounded_however_much_happens(api: Running) -> None:
    async with reading(api, "type=dead"):
        key = api.store.keyspaces[0].events
        pipe = api.store.client.pipeline(transaction=False)
        for _ in range(3000):
            pipe.xadd(key, {"e": b"1"})
        await pipe.execute()
        await submit(api)
        assert await api.store.client.xlen(key) <= 2100
        assert 0 < await api.store.client.pttl(key) <= feed.FOLLOW_MS


async def test_slow_reader_is_dropped_and_others_are_not(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.events.SEND_S", 0.3)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", api.port))
        sock.sendall(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n")
        sock.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(sock, 4) == b"HTTP"
        async with reading(api, "type=cancelled") as reader:
            kept = await submit(api)

            async def dropped() -> bool:
                await api.client.post("/jobs/batch", json=[{"target": "echo"}] * 1000)
                return "gateway_event_streams 1.0" in (await api.client.get("/metrics")).text

            assert "gateway_event_streams 2.0" in (await api.client.get("/metrics")).text
            await until(dropped, timeout_s=60)
            await api.client.delete(f"/jobs/{kept}")
            assert await reader.take(1) == [("cancelled", kept)]


async def test_reader_that_lags_far_behind_is_told_so(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.events.MESSAGES_MOST", 50)
    async with reading(api) as reader:
        await api.client.post("/jobs/batch", json=[{"target": "echo"}] * 500)
        with contextlib.suppress(EOFError):
            while reader.kind != "dropped":
                await reader.next()
        assert reader.kind == "dropped"
    async with reading(api, after=reader.last_id) as again:
        assert len(await again.take(400)) == 400


async def test_stream_ends_when_the_gateway_stops(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    gateway = contextlib.AsyncExitStack()
    api = await gateway.enter_async_context(running(settings_for(tmp_path, valkey_server.url, namespace)))
    url = f"http://127.0.0.1:{api.port}/events"
    async with gateway, httpx.AsyncClient(timeout=10) as client, client.stream("GET", url) as answer:
        lines = answer.aiter_lines()
        assert await anext(lines)
        async with asyncio.timeout(5):
            stopping = asyncio.create_task(gateway.aclose())
            assert await _all(lines) == []
            await stopping


async def _all(lines: AsyncIterator[str]) -> list[str]:
    return [line async for line in lines if line.startswith("data")]


async def test_stream_goes_on_when_redis_was_away(tmp_path: Path) -> None:
    with Server(tcp=True) as server:
        async with running(settings_for(tmp_path, server.url, "t")) as api, reading(api) as reader:
            await submit(api)
            await reader.take(1)
            server.restart()
            while (await reader.next(10))["detail"].startswith("events before") is False:
                pass
            assert reader.kind == "gap"
            job_id = await submit(api)
            assert await reader.take(1) == [("accepted", job_id)]


async def test_no_more_streams_are_open_than_may_be_when_many_come_at_once(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.api.events.STREAMS_MOST", 3)
    opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", api.port) for _ in range(12)))
    for _, writer in opened:
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(20):
        statuses = [(await reader.readline()).split()[1] for reader, _ in opened]
    assert sorted(statuses) == [b"200"] * 3 + [b"503"] * 9
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("type=exploded", {}, 422),
        ("kind=dead", {}, 422),
        ("", {"Last-Event-ID": "yesterday"}, 400),
        ("", {"Last-Event-ID": "1-1,1-1"}, 400),
        ("", {"Last-Event-ID": "1-1.99999"}, 400),
    ],
)
async def test_wrong_request_is_a_problem(api: Running, query: str, headers: dict[str, str], status: int) -> None:
    answer = await api.client.get(f"/events?{query}", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")

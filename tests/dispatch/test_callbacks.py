"""Callbacks as they are delivered: their own retry policy, their mark in the dead-letter queue, their caps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from gateway.api.records import render_summary
from gateway.backoff import RetryOverride
from gateway.durations import Duration
from gateway.jobs import CALLBACK_TARGET, Callback, Options, Record, Status
from gateway.store.listing import list_jobs
from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.egress.receiver import Peer, Receiver, always, answer
from tests.servers import Server

FAST = RetryOverride(policy="fixed", base=Duration(0.01), max_attempts=3)


@pytest.fixture
async def calling(tmp_path: Path, valkey_server: Server, namespace: str) -> AsyncIterator[Dispatching]:
    more = '[egress]\nallow = ["127.0.0.1"]\nper_host = 2\n'
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=more)) as running:
        yield running


async def callbacks(running: Dispatching, status: Status) -> list[Record]:
    return list((await list_jobs(running.client.store, status, limit=50, target=CALLBACK_TARGET)).records)


async def test_callback_is_tried_by_its_own_policy_and_marked_when_it_is_dead(calling: Dispatching) -> None:
    async with Receiver(always(answer("500 X"))) as receiver:
        callback = Callback(receiver.url, retry=FAST)
        job_id = await calling.client.submit("echo", 1, options=Options(callback=callback))
        record = await calling.client.ended(job_id)
        await receiver.arrived(3)
        dead = await calling.client.ended(
            record.callback_job_id or (await calling.client.record(job_id)).callback_job_id
        )
        assert (dead.status.value, dead.reason, dead.attempts) == ("dead", "exhausted", 3)
        shown = render_summary(dead)
        assert shown["callback_of"] == {"job_id": job_id, "event": "job.succeeded"}
        assert "callback" not in shown
        assert (await calling.client.record(job_id)).status == Status.SUCCEEDED
        assert [each.job_id for each in await callbacks(calling, Status.DEAD)] == [dead.job_id]


async def test_retries_are_told_where_that_was_asked_for(calling: Dispatching) -> None:
    async with Receiver(always(answer())) as receiver:
        callback = Callback(receiver.url, ("job.retrying", "job.dead"))
        await calling.client.submit(
            "fail", {"how": "retry", "after": 0}, options=Options(callback=callback), max_attempts=3
        )
        await receiver.arrived(3)
    bodies = [orjson.loads(seen.body) for seen in receiver.requests]
    assert sorted((body["type"], body["data"]["attempts"]) for body in bodies) == [
        ("job.dead", 3),
        ("job.retrying", 1),
        ("job.retrying", 2),
    ]
    assert all(("next_attempt_at" in body["data"]) == (body["type"] == "job.retrying") for body in bodies)


async def test_callbacks_of_one_host_run_no_more_at_once_than_its_cap(calling: Dispatching) -> None:
    open_now, most, go = 0, 0, asyncio.Event()

    async def holds(peer: Peer) -> None:
        nonlocal open_now, most
        while await peer.read() is not None:
            open_now += 1
            most = max(most, open_now)
            await go.wait()
            open_now -= 1
            await peer.write(answer())

    async with Receiver(holds) as slow, Receiver(always(answer())) as quick:
        for _ in range(6):
            await calling.client.submit("echo", 1, options=Options(callback=Callback(slow.url)))
        await slow.arrived(2)
        await calling.client.submit("echo", 1, options=Options(callback=Callback(quick.url)))
        await quick.arrived(1)
        go.set()
        await slow.arrived(4)
    assert most == 2

"""`Prefer: wait=N`: the answer held until the job is over, by a message and not by asking again and again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.api import models
from gateway.api.headers import Headers
from gateway.api.prefer import preferred_wait
from gateway.jobs import Outcome, Settlement
from gateway.store.scripts import run
from tests.api.running import Running, claim, running, settings_for
from tests.servers import Server
from tests.waiting import until

LONG = {"Prefer": "wait=20"}


def submit(api: Running, headers: dict[str, str] = LONG, **fields: Any) -> asyncio.Task[httpx.Response]:
    """A request under way."""
    body = {"target": "echo"} | fields
    return asyncio.create_task(api.client.post("/jobs", json=body, headers=headers, timeout=25))


async def waiters(api: Running) -> dict[bytes, bytes]:
    """Job ids and the processes that wait for them."""
    client: Any = api.store.client
    found: dict[bytes, bytes] = await client.hgetall(f"{api.store.keyspaces[0].prefix}waiters")
    return found


async def registered(api: Running, count: int = 1) -> None:
    """Returns once so many jobs are waited for."""

    async def true() -> bool:
        return len(await waiters(api)) == count

    await until(true)


async def end(api: Running, outcome: Outcome = "succeeded", **facts: Any) -> str:
    """Claims the one pending job and settles it: its id."""
    worker, ids, tokens = await claim(api.store)
    assert len(ids) == 1
    await worker.exchange([Settlement(ids[0], tokens[0], outcome, **facts)], None)
    return ids[0]


@pytest.fixture
async def own_server() -> AsyncIterator[Server]:
    with Server() as server:
        yield server


async def test_answer_is_the_finished_job_when_it_ends_in_time(api: Running) -> None:
    request = submit(api, payload={"n": 1})
    await registered(api)
    assert not request.done()
    job_id = await end(api, result='{"big":9007199254740993}')
    answer = await asyncio.wait_for(request, 5)
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=20"
    assert b'"result":{"big":9007199254740993}' in answer.content
    record = msgspec.json.decode(answer.content, type=models.JobRecord)
    assert (record.job_id, record.status, record.payload) == (job_id, "succeeded", {"n": 1})
    assert await waiters(api) == {}


async def test_record_is_held_until_the_job_is_over(api: Running) -> None:
    job_id = (await api.client.post("/jobs", json={"target": "echo"})).json()["job_id"]
    request = asyncio.create_task(api.client.get(f"/jobs/{job_id}", headers=LONG, timeout=25))
    await registered(api)
    assert not request.done()
    await end(api, result='{"big":9007199254740993}')
    answer = await asyncio.wait_for(request, 5)
    assert answer.headers["preference-applied"] == "wait=20"
    assert b'"result":{"big":9007199254740993}' in answer.content
    assert await waiters(api) == {}
    again = await api.client.get(f"/jobs/{job_id}", headers=LONG)
    assert (again.json()["status"], again.headers.get("preference-applied")) == ("succeeded", None)


async def test_record_is_as_it_stands_when_the_job_is_not_over_in_time(api: Running) -> None:
    job_id = (await api.client.post("/jobs", json={"target": "echo"})).json()["job_id"]
    answer = await api.client.get(f"/jobs/{job_id}", headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    missing = await api.client.get(f"/jobs/{job_id[:-2]}00x", headers=LONG)
    assert missing.status_code == 404


async def test_answer_tells_the_error_when_the_job_dies(api: Running) -> None:
    request = submit(api)
    await registered(api)
    await end(api, "dead", reason="fatal", error='{"type":"boom","message":"no"}')
    answer = await asyncio.wait_for(request, 5)
    assert (answer.status_code, answer.json()["reason"], answer.json()["error"]["message"]) == (200, "fatal", "no")


async def test_answer_comes_when_the_job_is_cancelled_while_it_waits(api: Running) -> None:
    request = submit(api, delay=60)
    await registered(api)
    job_id = next(iter(await waiters(api))).decode()
    assert (await api.client.delete(f"/jobs/{job_id}")).status_code == 200
    answer = await asyncio.wait_for(request, 5)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_answer_is_202_when_the_job_does_not_end_in_time(api: Running) -> None:
    answer = await submit(api, {"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert "preference-applied" not in answer.headers
    assert await waiters(api) == {}


async def test_waiting_asks_nothing_of_redis_meanwhile(own_server: Server, namespace: str, tmp_path: Path) -> None:
    async with running(settings_for(tmp_path, own_server.url, namespace)) as api:
        for _ in range(2):  # the first time the scripts are loaded
            await api.store.client.config_resetstat()
            assert (await submit(api, {"Prefer": "wait=1"})).status_code == 202
        stats = await api.store.client.info("commandstats")
        # submit, wait, leave, read
        assert stats["cmdstat_fcall"]["calls"] + stats["cmdstat_evalsha"]["calls"] == 4


async def test_repeat_waits_for_the_same_job_when_it_comes_to_another_process(
    api: Running, valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    async with running(settings_for(tmp_path, valkey_server.url, namespace)) as other:
        requests = [submit(each, idempotency_key="once") for each in (api, api, other)]

        async def both_wait() -> bool:
            return b"," in b"".join((await waiters(api)).values())

        await until(both_wait)
        job_id = await end(api, result='"done"')
        answers = await asyncio.wait_for(asyncio.gather(*requests), 5)
    assert [(answer.status_code, answer.json()["job_id"], answer.json()["result"]) for answer in answers] == [
        (200, job_id, "done")
    ] * 3
    again = await submit(api, idempotency_key="once")
    assert (again.status_code, again.json()["status"]) == (200, "succeeded")


async def test_repeat_is_the_usual_answer_when_it_waits_in_vain(api: Running) -> None:
    first = await submit(api, {}, idempotency_key="once")
    await claim(api.store)
    answer = await submit(api, {"Prefer": "wait=1"}, idempotency_key="once")
    assert answer.status_code == 200
    assert answer.json() == {"job_id": first.json()["job_id"], "status": "running", "duplicate": True}


async def forget_waiters(api: Running) -> None:
    """What a failover with lag may do: nobody is told any more."""
    await api.store.client.delete(f"{api.store.keyspaces[0].prefix}waiters")


async def test_end_is_seen_at_the_deadline_when_its_message_never_came(api: Running) -> None:
    request = submit(api, {"Prefer": "wait=1"})
    await registered(api)
    await forget_waiters(api)
    await end(api)
    answer = await request
    assert (answer.status_code, answer.json()["status"]) == (200, "succeeded")


async def test_end_is_seen_after_a_reconnection_when_its_message_was_lost(
    own_server: Server, namespace: str, tmp_path: Path
) -> None:
    async with running(settings_for(tmp_path, own_server.url, namespace)) as api:
        request = submit(api)
        await registered(api)
        await forget_waiters(api)
        await end(api)
        await api.store.client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        answer = await asyncio.wait_for(request, 5)
        assert (answer.status_code, answer.json()["status"]) == (200, "succeeded")


async def test_wait_is_registered_again_when_its_connection_is_lost(
    own_server: Server, namespace: str, tmp_path: Path
) -> None:
    async with running(settings_for(tmp_path, own_server.url, namespace)) as api:
        request = submit(api)
        await registered(api)
        await forget_waiters(api)
        await api.store.client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await registered(api)
        await end(api)
        assert (await asyncio.wait_for(request, 5)).status_code == 200


async def test_answer_is_202_with_the_id_when_redis_dies_meanwhile(
    own_server: Server, namespace: str, tmp_path: Path
) -> None:
    async with running(settings_for(tmp_path, own_server.url, namespace)) as api:
        request = submit(api, {"Prefer": "wait=1"})
        await registered(api)
        own_server.kill()
        answer = await asyncio.wait_for(request, 10)
        assert (answer.status_code, answer.json()["status"]) == (202, "pending")
        assert answer.json()["job_id"]


async def test_wait_is_given_up_when_the_client_goes_away(api: Running) -> None:
    body = b'{"target":"echo"}'
    with socket.create_connection(("127.0.0.1", api.port)) as client:
        client.sendall(
            b"POST /jobs HTTP/1.1\r\nhost: localhost\r\nprefer: wait=60\r\ncontent-length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        await registered(api)
    await registered(api, 0)
    assert await api.queued() == 1


async def test_held_answers_go_out_at_once_when_the_gateway_stops(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    clock = asyncio.get_running_loop().time
    async with httpx.AsyncClient(timeout=25) as client:
        async with running(settings_for(tmp_path, valkey_server.url, namespace)) as api:
            url = f"http://127.0.0.1:{api.port}/jobs"
            request = asyncio.create_task(client.post(url, json={"target": "echo"}, headers=LONG))
            await registered(api)
            began_s = clock()
        answer = await request
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert clock() - began_s < 5


async def test_wait_is_no_longer_than_configured(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_GATEWAY_HOLD="1s")
    async with running(settings) as api:
        assert (await asyncio.wait_for(submit(api), 5)).status_code == 202
        await claim(api.store)
        request = submit(api)
        await registered(api)
        await end(api)
        assert (await request).headers["preference-applied"] == "wait=1"


async def test_waits_work_in_every_partition(valkey_cluster: Server, namespace: str, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{valkey_cluster.port}/0"
    async with running(settings_for(tmp_path, url, namespace, GATEWAY_GATEWAY_PARTITIONS="4")) as api:
        await api.client.get("/livez")  # it has registered what claims ask for before it answers
        requests = [submit(api) for _ in range(12)]
        done: set[str] = set()

        async def all_done() -> bool:
            for partition in range(4):
                worker, ids, tokens = await claim(api.store, partition)
                done.update(ids)
                settled = [Settlement(*each, "succeeded") for each in zip(ids, tokens, strict=True)]
                await worker.exchange(settled, None) if settled else None
            return all(request.done() for request in requests)

        await until(all_done)
    assert {request.result().status_code for request in requests} == {200}
    assert {request.result().json()["job_id"] for request in requests} == done
    assert len({job_id[-2:] for job_id in done}) > 1


async def test_processes_that_wait_for_one_job_are_bounded_and_the_oldest_goes(api: Running) -> None:
    job_id = (await submit(api, {})).json()["job_id"]
    prefix = api.store.keyspaces[0].prefix
    for at in range(18):
        await run(api.store.client, "await_end", prefix, [f"p{at}", "wait", job_id])
    names = (await waiters(api))[job_id.encode()].split(b",")
    assert names == [b"p%d" % at for at in range(2, 18)]
    for name in names:
        await run(api.store.client, "await_end", prefix, [name, "leave", job_id])
    assert await waiters(api) == {}


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ([], 0),
        (["wait=7"], 7),
        (["Wait = 7"], 7),
        (['wait="7"'], 7),
        (["respond-async, wait=7"], 7),
        (["respond-async", "wait=7; note=x"], 7),
        (["wait=7", "wait=9"], 7),
        (["wait=99"], 60),
        (["wait=0"], 0),
        (["wait=-1"], 0),
        (["wait=1.5"], 0),
        (["wait"], 0),
        (["wait=soon"], 0),
        (['foo="a, wait=7"'], 0),
        (["await=7"], 0),
        (["wait=7x"], 0),
    ],
)
def test_preference_is_read_as_the_rfc_has_it(values: list[str], seconds: int) -> None:
    pairs = [(b"host", b"x"), *((b"prefer", value.encode()) for value in values)]
    assert preferred_wait(Headers(pairs, dict(pairs)), 60) == seconds

"""Single attempts: their time, their cancellation, their failures, and what becomes of the job."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import orjson

from gateway.jobs import Options
from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.servers import Server
from tests.waiting import until

WAIT_S = 60.0


async def test_attempt_is_ended_and_tried_again_when_its_time_is_up(
    running: Dispatching, namespace: str, stage: Stage
) -> None:
    began_s = time.monotonic()
    job_id = await running.client.submit("hold", {"stage": namespace}, max_attempts=2, options=Options(timeout=0.2))
    record = await running.client.ended(job_id)
    assert (record.status, record.reason, record.attempts) == ("dead", "exhausted", 2)
    assert orjson.loads(record.error)["type"] == "timeout"
    assert stage.log == ["start ", "cancelled "] * 2
    assert 0.4 <= time.monotonic() - began_s < 20.0


async def test_executor_is_told_how_long_it_has(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("deadline", options=Options(timeout=9.0)))
    assert 2.0 < float(record.result) <= 9.0


async def test_executor_is_told_about_its_job(running: Dispatching) -> None:
    job_id = await running.client.submit("facts", key="k", max_attempts=4, options=Options(tags=("a", "b")))
    facts = orjson.loads((await running.client.ended(job_id)).result)
    assert (facts["number"], facts["tags"], facts["key"], facts["max"]) == (1, ["a", "b"], "k", 4)


async def test_running_job_ends_cancelled_soon_after_it_is_asked_to(
    running: Dispatching, namespace: str, stage: Stage
) -> None:
    job_id = await running.client.submit("hold", {"stage": namespace})
    await asyncio.wait_for(stage.started.wait(), WAIT_S)
    began_s = time.monotonic()
    assert await running.client.store.cancel(job_id) == "asked"
    record = await running.client.ended(job_id)
    # a third of the lease (30 s) is how often leases are renewed: the message must be faster
    assert time.monotonic() - began_s < 8.0
    assert (record.status, record.attempts) == ("cancelled", 1)
    assert stage.log == ["start ", "cancelled "]


async def test_cancellation_is_found_by_the_renewal_when_its_message_is_lost(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, lease="1s")
    async with dispatching(settings) as running:
        job_id = await running.client.submit("hold", {"stage": namespace})
        await asyncio.wait_for(stage.started.wait(), WAIT_S)
        keyspace = running.client.store.keyspaces[0]
        client, prefix = running.client.store.client, keyspace.prefix
        line = str(await client.hget(f"{prefix}state", job_id), "utf-8").split("|")  # type: ignore[arg-type]
        line[6] += "q"  # the flags (lua/records.lua)
        await client.hset(f"{prefix}j:{job_id}", "cancel", "by hand")
        await client.hset(f"{prefix}state", job_id, "|".join(line))
        assert (await running.client.ended(job_id)).status == "cancelled"


async def test_running_command_is_killed_when_its_job_is_cancelled(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(60)"
    argv = orjson.dumps([sys.executable, "-c", code]).decode()
    more = f'[targets.sleep]\nexecutor = "command"\nargv = {argv}\n'
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=more)) as running:
        job_id = await running.client.submit("sleep")
        await until(lambda: _true(marker.is_file() and marker.read_text() != ""))
        pid = int(marker.read_text())
        await running.client.store.cancel(job_id)
        assert (await running.client.ended(job_id)).status == "cancelled"
        await until(lambda: _true(not Path(f"/proc/{pid}").exists()))


async def test_job_waits_no_less_than_its_failure_asks_for(running: Dispatching) -> None:
    job_id = await running.client.submit("fail", {"how": "retry", "after": 30}, max_attempts=2)
    record = await running.client.reached(job_id, "retrying")
    assert record.next_attempt_ms is not None
    assert record.started_ms is not None
    assert 30_000 <= record.next_attempt_ms - record.started_ms < 32_000


async def test_job_is_dead_at_once_when_its_failure_is_fatal(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("fail", {"how": "fatal"}, max_attempts=9))
    assert (record.status, record.reason, record.attempts) == ("dead", "fatal", 1)
    assert orjson.loads(record.error) == {"status": 422, "type": "refused", "message": "never"}


async def test_job_is_dead_exhausted_when_every_attempt_failed(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("fail", {"how": "broken"}, max_attempts=3))
    assert (record.status, record.reason, record.attempts) == ("dead", "exhausted", 3)
    error = orjson.loads(record.error)
    assert (error["type"], error["message"]) == ("ValueError", "broken")
    # where it came from: the job's own frames, none of ours
    assert len(error["traceback"]) == 1
    assert error["traceback"][0].startswith("tasks.py:")
    assert error["traceback"][0].endswith(" in fail")


async def test_time_out_of_the_jobs_own_is_a_failure_like_any_other(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("fail", {"how": "timeout"}, max_attempts=1))
    error = orjson.loads(record.error)
    assert (error["type"], error["message"]) == ("TimeoutError", "a time-out of its own")


async def test_job_that_exits_fails_and_the_dispatcher_goes_on(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("leave", max_attempts=1))
    assert (record.status, record.reason) == ("dead", "exhausted")
    assert b"SystemExit" in record.error
    assert (await running.client.ended(await running.client.submit("echo", 1))).status == "succeeded"


async def test_job_is_dead_when_its_target_is_not_known_here(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("elsewhere", max_attempts=9))
    assert (record.status, record.reason, record.attempts) == ("dead", "no_target", 1)
    assert b"elsewhere" in record.error
    assert b"this dispatcher read gateway.toml when it started" in record.error


async def test_job_goes_back_unspent_for_a_dispatcher_that_knows_its_target(running: Dispatching) -> None:
    running.runner.verdicts.no_target_after_s = 60.0
    job_id = await running.client.submit("elsewhere", 7, max_attempts=1)
    waiting = await running.client.reached(job_id, "retrying")
    assert (waiting.attempts, waiting.reason) == (0, "")
    assert b"this dispatcher read gateway.toml when it started" in waiting.error
    registry = running.runner.registry
    registry.targets = {**registry.targets, "elsewhere": registry.target("echo")}
    record = await running.client.ended(job_id)
    assert (record.status, record.attempts) == ("succeeded", 1)


async def test_job_is_dead_when_no_dispatcher_has_known_its_target_for_long(running: Dispatching) -> None:
    running.runner.verdicts.no_target_after_s = 0.01
    record = await running.client.ended(await running.client.submit("elsewhere", max_attempts=1))
    assert (record.status, record.reason, record.attempts) == ("dead", "no_target", 1)
    assert b"this dispatcher read gateway.toml when it started" in record.error


async def test_job_is_dead_at_once_when_its_stored_payload_is_no_json(running: Dispatching) -> None:
    job_id = await running.client.submit("echo", delay_ms=300, max_attempts=9)
    await _store_body(running, job_id, b"\nnonsense")
    record = await running.client.ended(job_id)
    assert (record.reason, record.attempts) == ("fatal", 1)


async def test_job_is_dead_when_its_stored_options_cannot_be_read(running: Dispatching) -> None:
    job_id = await running.client.submit("echo", delay_ms=300, max_attempts=1)
    await _store_body(running, job_id, b"{nonsense\n1")
    await until(lambda: _dead(running))
    await _store_body(running, job_id, b"\n1")  # or the record could not be read either
    assert (await running.client.record(job_id)).reason == "exhausted"


async def _store_body(running: Dispatching, job_id: str, body: bytes) -> None:
    store = running.client.store
    name = f"{store.keyspaces[0].prefix}b:{job_id}"
    facts = bytes(await store.client.get(name)).partition(b"\n")[0]  # type: ignore[arg-type]
    await store.client.set(name, facts + b"\n" + body)


async def _dead(running: Dispatching) -> bool:
    return (await running.client.store.inspect()).dead == 1


async def _true(fact: bool) -> bool:
    return fact

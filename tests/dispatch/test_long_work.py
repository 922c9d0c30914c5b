"""A target that answers 202 and goes on by itself: no slot is held, and its word ends the job."""

from __future__ import annotations

from pathlib import Path

import orjson

from gateway.completion import read_completion_token
from gateway.jobs import Settlement
from gateway.signing import SigningKey
from gateway.store.completion import settle_elsewhere
from tests.dispatch.running import dispatching, settings_for
from tests.egress.receiver import Receiver, always, answer
from tests.servers import Server

CONFIG = """
[egress]
allow = ["127.0.0.1"]
[targets.print]
executor = "http"
url = "{url}"
long_work = "{long_work}"
retry = {{ policy = "fixed", base = "10ms", max_attempts = 2 }}
"""
ASYNC = answer("202 Accepted", b"", "gateway-async: true")


async def test_job_goes_on_without_a_slot_until_its_end_is_told(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    async with Receiver(always(ASYNC)) as receiver:
        more = CONFIG.format(url=receiver.url, long_work="1h")
        settings = settings_for(tmp_path, valkey_server.url, namespace, more=more, slots=1, lease="1s")
        async with dispatching(settings) as running:
            client = running.client
            job_id = await client.submit("print", {"pages": 3})
            await receiver.arrived()
            assert (await client.ended(await client.submit("echo", 1))).status == "succeeded"  # the one slot is free
            assert (await client.record(job_id)).status == "running"
            keys = [SigningKey.parse(key.reveal()) for key in client.store.signing_keys]
            text = receiver.requests[0].values("gateway-token")[0]
            token = read_completion_token(keys, job_id, text)
            assert token is not None
            await settle_elsewhere(client.store, Settlement(job_id, token, "succeeded", result='{"sheets":3}'))
            record = await client.ended(job_id)
            assert (record.attempts, record.stalls, orjson.loads(record.result)) == (1, 0, {"sheets": 3})


async def test_job_whose_end_nobody_tells_is_tried_again_and_dies_of_it(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    async with Receiver(always(ASYNC)) as receiver:
        more = CONFIG.format(url=receiver.url, long_work="1s")
        async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=more)) as running:
            record = await running.client.ended(await running.client.submit("print", 1, max_attempts=2), timeout_s=60)
            assert (record.status.value, record.reason, record.attempts) == ("dead", "exhausted", 2)
            assert orjson.loads(record.error)["type"] == "timeout"
            first, second = (seen.values("gateway-token")[0] for seen in receiver.requests)
            assert first != second


async def test_plain_202_is_a_success(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    async with Receiver(always(answer("202 Accepted", b"ok"))) as receiver:
        more = CONFIG.format(url=receiver.url, long_work="1h")
        async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, more=more)) as running:
            record = await running.client.ended(await running.client.submit("print", 1))
            assert (record.status.value, orjson.loads(record.result)) == ("succeeded", "ok")

"""What jobs return and raise, however odd: it ends in the record, and never in the dispatcher."""

from __future__ import annotations

import orjson
import pytest

from gateway.results import RESULT_BYTES
from tests.dispatch.running import Dispatching
from tests.dispatch.tasks import ODD_FAILURES, ODD_RESULTS


@pytest.mark.parametrize("name", ODD_RESULTS)
async def test_job_fails_when_its_result_is_no_json(running: Dispatching, name: str) -> None:
    record = await running.client.ended(await running.client.submit("result", name, max_attempts=3))
    assert (record.status, record.reason, record.attempts, record.result) == ("dead", "fatal", 1, b"")
    error = orjson.loads(record.error)
    assert error["type"] == "result"
    assert error["message"].startswith("tests.dispatch.tasks:result returned ")
    assert not running.task.done()


async def test_result_is_cut_and_says_so_when_it_is_too_large(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("large", 3 * RESULT_BYTES))
    result = orjson.loads(record.result)
    assert (record.status, result["truncated"], result["bytes"]) == ("succeeded", True, 3 * RESULT_BYTES + 2)
    assert result["head"].startswith('"xxx')
    assert len(record.result) <= RESULT_BYTES


async def test_result_is_whole_when_it_is_just_small_enough(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("large", RESULT_BYTES - 2))
    assert len(record.result) == RESULT_BYTES


async def test_result_of_a_function_keeps_its_digits(running: Dispatching) -> None:
    record = await running.client.ended(await running.client.submit("power", 70))
    assert (record.status, record.result) == ("succeeded", str(2**70).encode())


@pytest.mark.parametrize("name", ODD_FAILURES)
async def test_failure_is_settled_however_odd_it_is(running: Dispatching, name: str) -> None:
    record = await running.client.reached(
        await running.client.submit("fail_oddly", name, max_attempts=2), "retrying", "dead", timeout_s=5
    )
    error = orjson.loads(record.error)
    assert isinstance(error["type"], str)
    assert isinstance(error["message"], str)
    assert (await running.client.ended(await running.client.submit("echo", 1))).status == "succeeded"
    assert not running.task.done()

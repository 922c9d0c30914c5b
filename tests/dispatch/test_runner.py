"""The runner alone: an outcome for every ending, and CancelledError for its caller."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from gateway.jobs import CALLBACK_TARGET, Options
from gateway.runner import Runner
from tests.dispatch.running import claimed
from tests.dispatch.tasks import Stage


async def test_settlement_carries_the_token_of_its_claim(runner: Runner) -> None:
    settlement = await runner.run(claimed("echo", [1], attempt=2), asyncio.Event())
    assert (settlement.token, settlement.outcome, settlement.result) == ("2:d1.7", "succeeded", "[1]")


async def test_result_of_none_is_no_result(runner: Runner) -> None:
    assert (await runner.run(claimed("echo", None), asyncio.Event())).result == ""


async def test_attempt_ends_in_time_when_nobody_else_watches_it(runner: Runner, namespace: str, stage: Stage) -> None:
    job = claimed("hold", {"stage": namespace}, options=Options(timeout=0.05))
    settlement = await asyncio.wait_for(runner.run(job, asyncio.Event()), 5)
    assert (settlement.outcome, settlement.delay_ms) == ("retry", 10)
    assert orjson.loads(settlement.error)["type"] == "timeout"


async def test_cancellation_passes_to_the_caller(runner: Runner, namespace: str, stage: Stage) -> None:
    attempt = asyncio.create_task(runner.run(claimed("hold", {"stage": namespace}), asyncio.Event()))
    await asyncio.wait_for(stage.started.wait(), 5)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert stage.log == ["start ", "cancelled "]


async def test_policy_of_the_job_goes_before_that_of_its_target(runner: Runner) -> None:
    policy = orjson.dumps({"retry": {"policy": "exponential", "base": 2, "cap": 100}})
    job = claimed("fail", {"how": "broken"}, attempt=2)
    job.body = policy + job.body
    assert (await runner.run(job, asyncio.Event())).delay_ms == 4000


async def test_address_that_is_not_allowed_is_fatal(runner: Runner) -> None:
    cause = {"job_id": "j", "target": "t", "status": "succeeded", "attempts": 1, "at_ms": 1}
    job = claimed(CALLBACK_TARGET, None)
    options = {"cause": cause, "parent": {"callback": {"url": "http://127.0.0.1:8443/hook"}}}
    job.body = orjson.dumps(options) + b"\n"
    settlement = await runner.run(job, asyncio.Event())
    assert (settlement.outcome, settlement.reason) == ("dead", "fatal"), settlement.error
    assert orjson.loads(settlement.error)["type"] == "egress_denied"

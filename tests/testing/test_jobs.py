"""`run_job`, the fake clock and the `gateway` fixture: what the authors of plugins test with."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, ClassVar

import msgspec
import pytest

from gateway import Attempt, ConfigError, Context, Duration, Executor, Fatal, Result, Retry
from gateway.testing.clock import FakeClock
from gateway.testing.fixtures import RunningGateway
from gateway.testing.fixtures import gateway as gateway
from gateway.testing.fixtures import gateway_redis_url as gateway_redis_url
from gateway.testing.jobs import run_job

TRAY = (
    '[targets.label]\nexecutor = "printer"\ntray = 2\nretry = { policy = "fixed", base = "10ms", max_attempts = 2 }\n'
)


class PrinterConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tray: int
    pause: Duration = Duration(0)


class Printer(Executor[PrinterConfig]):
    name: ClassVar[str] = "printer"
    Config: ClassVar[type[msgspec.Struct]] = PrinterConfig
    starts = closes = 0

    async def start(self) -> None:
        self.starts += 1

    async def aclose(self) -> None:
        self.closes += 1

    async def execute(self, attempt: Attempt[PrinterConfig]) -> Result:
        await asyncio.sleep(attempt.config.pause)
        attempt.progress({"at": attempt.number})
        match attempt.payload.value:
            case "later" if attempt.number < 3:
                raise Retry("warming up", after=40)
            case "never":
                raise Fatal("no paper", details={"tray": attempt.config.tray})
            case "bare":
                return {"tray": attempt.config.tray}  # type: ignore[return-value]
            case "exact":
                return Result({"sheets": [Decimal("1.5")]})
        return Result({"tray": attempt.config.tray, "number": attempt.number})


def shout(text: str, context: Context) -> str:
    context.progress(len(text))
    return text.upper()


def priced(payload: Any) -> Any:
    return {"prices": {7: payload}}


def fails(payload: Any) -> None:
    raise ValueError("broken")


async def test_job_of_an_executor_runs_to_its_end_and_its_retries_take_no_time() -> None:
    clock, printer = FakeClock(1000.0), Printer()
    ran = await run_job(printer, "later", config={"tray": 2}, clock=clock, retry={"policy": "fixed", "base": "1s"})
    assert (ran.status, ran.result) == ("succeeded", {"tray": 2, "number": 3})
    assert [(each.number, each.outcome, each.delay_s) for each in ran.attempts] == [
        (1, "retry", 40.0),
        (2, "retry", 40.0),
        (3, "succeeded", 0.0),
    ]
    assert ran.attempts[0].error == {"type": "retry", "message": "warming up"}
    assert ran.attempts[2].progress == ({"at": 3},)
    assert (clock(), clock.waits) == (1080.0, [40.0, 40.0])
    assert (printer.starts, printer.closes) == (1, 1)


async def test_job_that_fails_says_why() -> None:
    ran = await run_job(Printer(), "never", config={"tray": 7})
    assert (ran.status, ran.reason, ran.error) == ("dead", "fatal", {"type": "fatal", "message": "no paper", "tray": 7})
    ran = await run_job(Printer(), config={"tray": 1, "pause": 5}, timeout="10ms", retry={"max_attempts": 1})
    assert (ran.reason, ran.error and ran.error["type"]) == ("exhausted", "timeout")


async def test_job_whose_work_is_done_runs_once_whatever_it_returned() -> None:
    returned = {
        "bare": "Printer.execute returned dict, not a Result; return Result(value)",
        "exact": "the target job returned decimal.Decimal at $.sheets[0], which is not JSON; return str or float",
    }
    for payload, message in returned.items():
        ran = await run_job(Printer(), payload, config={"tray": 1})
        assert (ran.reason, len(ran.attempts)) == ("fatal", 1)
        assert ran.error == {"type": "result", "message": message}
    ran = await run_job(priced, {"secret": 1})
    assert ran.error == {
        "type": "result",
        "message": f"{__name__}:priced returned a dict at $.prices with a key of type int, which is not JSON; "
        "make its keys str",
    }


async def test_retry_policy_is_seen_on_the_clock_and_the_same_seed_draws_the_same() -> None:
    exponential = {"policy": "exponential", "base": "1s", "max_attempts": 4}
    assert [each.delay_s for each in (await run_job(fails, retry=exponential)).attempts] == [1.0, 2.0, 4.0, 0.0]
    draws = [[each.delay_s for each in (await run_job(fails, seed=seed)).attempts] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


async def test_function_is_called_as_a_target_would_call_it() -> None:
    ran = await run_job(shout, "hello")
    assert (ran.result, ran.attempts[0].progress) == ("HELLO", (5,))
    ran = await run_job(shout, 5)
    assert (ran.reason, ran.error and ran.error["type"]) == ("fatal", "payload")


async def test_table_that_would_stop_the_start_raises() -> None:
    with pytest.raises(ConfigError, match='target job: unknown key "trai"'):
        await run_job(Printer(), config={"trai": 2})


def test_clock_stands_still_and_does_not_go_back() -> None:
    clock = FakeClock()
    clock.advance(2.5)
    assert (clock(), clock.waits) == (2.5, [2.5])
    with pytest.raises(ValueError, match="does not go back by 1 s"):
        clock.advance(-1)


async def test_gateway_runs_jobs_of_a_plugins_executor(gateway: RunningGateway) -> None:
    await gateway.start(TRAY, executors=[Printer()])
    record = await gateway.run("label", 1)
    assert (record.status, record.result) == ("succeeded", b'{"tray":2,"number":1}')
    record = await gateway.run("label", "never")
    assert (record.status, record.reason) == ("dead", "fatal")


async def test_gateway_refuses_what_start_up_would_and_leaves_nothing(gateway: RunningGateway) -> None:
    with pytest.raises(ConfigError, match='no executor named "printer"'):
        await gateway.start(TRAY)

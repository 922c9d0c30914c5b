"""Attempts that swallow their cancellation: cancelled again, then left behind, settled as what they were ended for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from gateway.dispatch.attempts import MOST_CANCELS, Attempts, End, Over
from gateway.jobs import Claimed, Options, Settlement
from gateway.runner import Runner
from tests.dispatch.running import claimed
from tests.dispatch.tasks import Stage
from tests.waiting import until

Ended = asyncio.Queue[Settlement | None]


class Hasty(Runner):
    """Gives attempts but a moment to end."""

    def ending_s(self, claimed: Claimed) -> float:
        return 0.02


@pytest.fixture
def ended() -> Ended:
    return asyncio.Queue()


@pytest.fixture
def attempts(runner: Runner, ended: Ended) -> Attempts:
    return Attempts(Hasty(runner.registry, runner.http), done=partial(note, ended))


def note(ended: Ended, over: Sequence[Over]) -> None:
    for _, settlement in over:
        ended.put_nowait(settlement)


async def begin(attempts: Attempts, namespace: str, stage: Stage, **payload: int) -> Claimed:
    job = claimed("swallow", {"stage": namespace, **payload})
    attempts.start([job], until_s=math.inf)
    await asyncio.wait_for(stage.started.wait(), 5)
    return job


@pytest.mark.parametrize(
    ("end", "outcome"), [("timeout", "retry"), ("cancelled", "cancelled"), ("released", "released")]
)
async def test_attempt_that_swallows_all_is_settled_once_as_what_it_was_ended_for(
    end: End, outcome: str, attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    job = await begin(attempts, namespace, stage)
    with capture_logs() as lines:
        assert attempts.end(job.job_id, end)
        settlement = await asyncio.wait_for(ended.get(), 10)
    assert settlement is not None
    assert (settlement.token, settlement.outcome) == (job.token, outcome)
    assert (attempts.active, stage.log) == (0, ["swallowed"] * MOST_CANCELS)
    (line,) = lines
    assert (line["log_level"], line["job_id"], line["settled_as"]) == ("error", job.job_id, end)
    assert not attempts.end(job.job_id, "cancelled")
    stage.go.set()  # what is left of it ends, and changes nothing
    await until(lambda: _holds(stage.log[-1] == "went on"))
    await until(lambda: _holds(not attempts._tasks))
    assert (ended.empty(), attempts.active) == (True, 0)


async def test_attempt_that_swallows_one_cancellation_ends_by_the_next(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    job = await begin(attempts, namespace, stage, swallows=1)
    attempts.end(job.job_id, "cancelled")
    with capture_logs() as lines:
        settlement = await asyncio.wait_for(ended.get(), 10)
    assert settlement is not None
    assert (settlement.outcome, stage.log, lines) == ("cancelled", ["swallowed"] * 2, [])


async def test_attempt_that_is_asked_twice_is_not_disturbed_while_it_ends(
    runner: Runner, ended: Ended, namespace: str, stage: Stage
) -> None:
    attempts = Attempts(runner, done=partial(note, ended))
    job = await begin(attempts, namespace, stage)
    for _ in range(3):
        attempts.end(job.job_id, "cancelled")
        await asyncio.sleep(0)
    assert stage.log == ["swallowed"]
    attempts.leave_behind(most_s=4)
    assert ended.empty()
    attempts.leave_behind(most_s=5)
    settlement = ended.get_nowait()
    assert settlement is not None
    assert settlement.outcome == "cancelled"
    stage.go.set()
    await until(lambda: _holds(not attempts._tasks))


async def _holds(value: bool) -> bool:
    return value


@pytest.mark.parametrize("said", [None, ZeroDivisionError("of a plugin")])
async def test_attempts_end_in_time_when_an_executor_cannot_say_how_long_that_takes(
    said: object, runner: Runner, ended: Ended, namespace: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending_s(config: object) -> object:
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(runner.registry.target("hold").executor, "ending_s", ending_s)
    attempts = Attempts(runner, done=partial(note, ended))
    jobs = [claimed("hold", {"stage": namespace}, options=Options(timeout=timeout_s)) for timeout_s in (0.01, 0.2)]
    for number, job in enumerate(jobs):
        attempts.start([replace(job, job_id=str(number))], until_s=math.inf)
    for _ in jobs:
        settlement = await asyncio.wait_for(ended.get(), 10)
        assert settlement is not None
        assert settlement.outcome == "retry"

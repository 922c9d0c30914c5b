"""What a dispatcher holds: of each job the newest attempt, whatever becomes of an older one."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence

import pytest

from gateway.dispatch.attempts import Attempts, Over
from gateway.jobs import Claimed, Settlement
from gateway.keys import JobIds
from gateway.runner import Runner
from tests.dispatch.running import claimed
from tests.dispatch.tasks import Stage

IDS = JobIds()
Ended = asyncio.Queue[tuple[str, Settlement | None]]


@pytest.fixture
def ended() -> Ended:
    """Attempts that ended: token and settlement."""
    return asyncio.Queue()


@pytest.fixture
def attempts(runner: Runner, ended: Ended) -> Attempts:
    def done(over: Sequence[Over]) -> None:
        for running, settlement in over:
            ended.put_nowait((running.claimed.token, settlement))

    return Attempts(runner, done=done)


def two_claims(namespace: str) -> tuple[Claimed, Claimed]:
    """The same job, claimed twice: its lease had run out in between."""
    old, new = (claimed("hold", {"stage": namespace, "label": label}) for label in ("old", "new"))
    old.token, new.token = "1:d1.1", "1:d1.2"
    return old, new


async def test_newer_attempt_is_held_when_the_older_one_ends(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    old, new = two_claims(namespace)
    attempts.start([old], until_s=math.inf)
    await asyncio.wait_for(stage.started.wait(), 5)
    attempts.start([new], until_s=math.inf)
    assert await asyncio.wait_for(ended.get(), 5) == (old.token, None)
    assert attempts.forget(old.job_id, old.token) is None
    assert attempts.held[new.job_id].claimed is new
    stage.go.set()
    token, settlement = await asyncio.wait_for(ended.get(), 5)
    assert token == new.token
    assert settlement is not None
    assert settlement.outcome == "succeeded"
    assert attempts.forget(new.job_id, new.token) is not None
    await asyncio.wait_for(attempts.wait_empty(), 5)


async def test_older_attempt_whose_outcome_is_not_written_yet_is_told_of_when_that_is_refused(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    old, new = two_claims(namespace)
    stage.go.set()
    attempts.start([old], until_s=math.inf)
    token, settlement = await asyncio.wait_for(ended.get(), 5)
    assert (token, settlement is not None) == (old.token, True)
    attempts.start([new], until_s=math.inf)
    assert (await asyncio.wait_for(ended.get(), 5))[0] == new.token
    refused = attempts.forget(old.job_id, old.token)
    assert refused is not None
    assert refused.claimed is old
    assert attempts.forget(old.job_id, old.token) is None
    assert attempts.held[new.job_id].claimed is new


async def test_news_of_an_older_attempt_leave_the_newer_one_alone(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    old, new = two_claims(namespace)
    attempts.start([new], until_s=math.inf)
    await asyncio.wait_for(stage.started.wait(), 5)
    attempts.end(new.job_id, "lost", token=old.token)
    stage.go.set()
    token, settlement = await asyncio.wait_for(ended.get(), 5)
    assert (token, settlement is not None) == (new.token, True)
    assert stage.log == ["start new", "end new"]


def batch(namespace: str, *targets: str) -> list[Claimed]:
    """A claim of each target, labelled by its place."""
    jobs = [claimed(target, {"stage": namespace, "label": f"{at}"}) for at, target in enumerate(targets)]
    for job in jobs:
        job.job_id = IDS.new(1, 0)
    return jobs


async def outcomes(ended: Ended, count: int) -> list[str]:
    found = [await asyncio.wait_for(ended.get(), 5) for _ in range(count)]
    return ["" if settlement is None else settlement.outcome for _, settlement in found]


async def test_jobs_go_on_while_one_of_their_batch_waits(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    attempts.start(batch(namespace, "mark", "hold", "mark", "hold", "mark"), until_s=math.inf)
    assert await outcomes(ended, 3) == ["succeeded"] * 3
    assert stage.log == ["0", "start 1", "2", "start 3", "4"]
    assert attempts.active == 2
    stage.go.set()
    assert await outcomes(ended, 2) == ["succeeded"] * 2
    assert attempts.active == 0


async def test_a_job_finds_nothing_that_another_one_of_its_batch_left_in_the_context(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    attempts.start(batch(namespace, "mind", "mind", "mark", "mind"), until_s=math.inf)
    assert await outcomes(ended, 4) == ["succeeded"] * 4
    assert stage.log == ["0 after nobody", "1 after nobody", "2", "3 after nobody"]


async def test_a_job_that_cancels_its_own_task_takes_none_of_its_batch_with_it(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    attempts.start(batch(namespace, "mark", "desert", "mark", "mark"), until_s=math.inf)
    assert await outcomes(ended, 4) == ["succeeded"] * 4
    assert stage.log == ["0", "2", "3"]


async def test_a_job_that_is_cancelled_before_its_turn_never_begins(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    jobs = batch(namespace, "mark", "mark", "mark")
    attempts.start(jobs, until_s=math.inf)
    assert attempts.end(jobs[1].job_id, "cancelled")
    assert await outcomes(ended, 3) == ["succeeded", "cancelled", "succeeded"]
    assert stage.log == ["0", "2"]
    assert not attempts.end(jobs[1].job_id, "cancelled"), "it is over"


async def test_a_job_whose_lease_was_over_before_its_turn_is_given_back(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    attempts.start(batch(namespace, "mark", "hold"), until_s=time.perf_counter())
    assert await outcomes(ended, 2) == ["released"] * 2
    assert stage.log == []


async def test_ending_one_of_a_batch_that_waits_leaves_the_others_alone(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    jobs = batch(namespace, "hold", "hold", "mark")
    attempts.start(jobs, until_s=math.inf)
    assert await outcomes(ended, 1) == ["succeeded"]
    assert attempts.end(jobs[0].job_id, "released")
    assert await outcomes(ended, 1) == ["released"]
    stage.go.set()
    assert await outcomes(ended, 1) == ["succeeded"]
    assert stage.log == ["start 0", "start 1", "2", "cancelled 0", "end 1"]

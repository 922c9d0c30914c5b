"""What a dispatcher holds: of each job the newest attempt, whatever becomes of an older one."""

from __future__ import annotations

import asyncio

import pytest

from gateway.dispatch.attempts import Attempts, Running
from gateway.jobs import Claimed, Settlement
from gateway.runner import Runner
from tests.dispatch.running import claimed
from tests.dispatch.tasks import Stage

Ended = asyncio.Queue[tuple[str, Settlement | None]]


@pytest.fixture
def ended() -> Ended:
    """Attempts that ended: token and settlement."""
    return asyncio.Queue()


@pytest.fixture
def attempts(runner: Runner, ended: Ended) -> Attempts:
    def done(running: Running, settlement: Settlement | None) -> None:
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
    attempts.start(old)
    await asyncio.wait_for(stage.started.wait(), 5)
    attempts.start(new)
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


async def test_news_of_an_older_attempt_leave_the_newer_one_alone(
    attempts: Attempts, ended: Ended, namespace: str, stage: Stage
) -> None:
    old, new = two_claims(namespace)
    attempts.start(new)
    await asyncio.wait_for(stage.started.wait(), 5)
    attempts.end(new.job_id, "lost", token=old.token)
    stage.go.set()
    token, settlement = await asyncio.wait_for(ended.get(), 5)
    assert (token, settlement is not None) == (new.token, True)
    assert stage.log == ["start new", "end new"]

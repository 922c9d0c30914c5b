"""Attempts that end as nobody asked for: each is a failed attempt, spent, and never a release or an end of the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import orjson
import pytest

from tests.dispatch.running import Dispatching, dispatching, settings_for
from tests.dispatch.stray import STRAY, UNFIT
from tests.dispatch.tasks import ENDS
from tests.servers import Server

TARGET = '[targets.stray]\nexecutor = "stray"\nretry = { policy = "fixed", base = "10ms", max_attempts = 2 }\n'


@pytest.fixture
async def running(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Dispatching]:
    """With a plugin's executor."""
    settings = settings_for(tmp_path, valkey_server.url, namespace, more=TARGET)
    async with dispatching(msgspec.structs.replace(settings, plugins=("tests.dispatch.stray",))) as running:
        yield running


async def _failed(running: Dispatching, target: str, payload: str, *, status: str = "dead") -> dict[str, str]:
    """The error of a job that may fail twice, once it is dead of that, or has this status."""
    job_id = await running.client.submit(target, payload, max_attempts=2)
    record = await running.client.reached(job_id, status, timeout_s=10)
    assert record.attempts == (2 if status == "dead" else 1)
    assert (await running.client.ended(await running.client.submit("echo", 1))).status == "succeeded"
    assert not running.task.done()
    error: dict[str, str] = orjson.loads(record.error)
    return error


@pytest.mark.parametrize("how", STRAY)
async def test_attempt_of_a_plugin_fails_however_it_ends(running: Dispatching, how: str) -> None:
    error = await _failed(running, "stray", how)
    assert error["type"] in ("cancellederror", "systemexit", "keyboardinterrupt", "generatorexit", "_own")
    assert "the target stray" in error["message"]


@pytest.mark.parametrize(("after", "status"), [("huge", "retrying"), ("huge and negative", "dead")])
async def test_attempt_of_a_plugin_fails_however_long_it_wants_to_wait(
    running: Dispatching, after: str, status: str
) -> None:
    assert (await _failed(running, "stray", after, status=status))["message"] == "later"


@pytest.mark.parametrize("target", ["end_itself", "end_in_thread"])
@pytest.mark.parametrize("how", ENDS)
async def test_attempt_of_a_function_fails_when_it_ends_itself(running: Dispatching, target: str, how: str) -> None:
    error = await _failed(running, target, how)
    assert error["type"] == how.lower()
    assert f"tests.dispatch.tasks:{target} raised {how}" in error["message"]


async def test_attempt_of_a_function_fails_when_it_cancels_its_own_task(running: Dispatching) -> None:
    error = await _failed(running, "end_itself", "cancel")
    assert error["type"] == "cancellederror"
    assert "tests.dispatch.tasks:end_itself" in error["message"]


@pytest.mark.parametrize("how", UNFIT)
async def test_deferred_attempt_is_dead_when_its_time_is_none(running: Dispatching, how: str) -> None:
    record = await running.client.ended(await running.client.submit("stray", how, max_attempts=3))
    assert (record.status, record.reason, record.attempts) == ("dead", "fatal", 1)
    assert "within_s" in orjson.loads(record.error)["message"]

"""A primary that Sentinels name: found, lost, found again, with no process started anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.errors import StoreUnavailable
from gateway.settings import Settings
from gateway.store import Store
from tests.dispatch.running import Dispatching, dispatching
from tests.groups import MASTER, SentinelGroup, plain_client
from tests.topology.load import Load, loading
from tests.waiting import until

RESUME_S = 2.0
"""After the promotion."""


def kill(group: SentinelGroup) -> None:
    group.fail_over()


def demote(group: SentinelGroup) -> None:
    group.fail_over(kill=False)


def suspend(group: SentinelGroup) -> None:
    """The primary falls silent, is replaced, and comes back believing that it still is one."""
    old = group.primary
    old.suspend()
    group.await_other_primary(old)
    old.resume()


async def in_step(group: SentinelGroup) -> None:
    """Every replica has what was written: what a failover may lose (durability `memory`) is not looked at here."""
    with plain_client(group.primary.port) as client:
        assert await asyncio.to_thread(client.wait, 2, 5000) == 2


@pytest.mark.parametrize("take_away", [kill, demote, suspend])
async def test_work_goes_on_by_itself_after_a_failover(
    sentinels: SentinelGroup, sentinel_settings: Settings, take_away: Callable[[SentinelGroup], None]
) -> None:
    async with dispatching(sentinel_settings) as running:
        store = running.client.store
        async with loading(store, "echo") as load:
            pass
        await in_step(sentinels)
        old = sentinels.primary
        await asyncio.to_thread(take_away, sentinels)
        promoted_s = time.monotonic()
        assert sentinels.primary is not old
        async with loading(store, "echo") as after:
            pass
        assert after.first_after(promoted_s) < RESUME_S
        await all_succeed(running, load, after)


async def all_succeed(running: Dispatching, *loads: Load) -> None:
    """Every acknowledged job is there and succeeds, and the dispatcher never ended."""

    async def done() -> bool:
        return not [job_id for load in loads for job_id in await load.unfinished()]

    for load in loads:
        assert await load.missing() == []
    await until(done, timeout_s=20, every_s=0.1)
    assert not running.task.done()


async def test_primary_is_found_by_the_latest_configuration_and_with_a_sentinel_gone(
    sentinels: SentinelGroup, sentinel_settings: Settings
) -> None:
    sentinels.sentinels[0].kill()
    await asyncio.to_thread(sentinels.fail_over)
    # it wakes up with what it believed before, and says so until the others have told it
    sentinels.sentinels[0].start()
    async with dispatching(sentinel_settings) as running:
        job_id = await running.client.submit("echo", 1)
        assert (await running.client.ended(job_id)).status == "succeeded"


async def test_unknown_master_is_unavailable_and_says_its_name(sentinels: SentinelGroup, namespace: str) -> None:
    with pytest.raises(StoreUnavailable, match="'elsewhere'"):
        await Store.open(sentinels.url.replace(f"/{MASTER}/", "/elsewhere/"), namespace=namespace)


async def test_no_sentinel_at_all_is_unavailable(namespace: str) -> None:
    with pytest.raises(StoreUnavailable, match="none of the 2 Sentinels"):
        await Store.open("redis+sentinel://127.0.0.1:1,127.0.0.1:2/jobs", namespace=namespace)

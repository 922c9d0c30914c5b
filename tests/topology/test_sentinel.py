"""A primary that Sentinels name: found, lost, found again, with no process started anew."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from gateway.errors import StoreShort, StoreUnavailable
from gateway.jobs import Submission
from gateway.redis_url import parse_redis_url
from gateway.settings import Settings
from gateway.store import Store
from gateway.store.sentinel import SentinelClient
from tests.dispatch.running import Dispatching, dispatching
from tests.groups import MASTER, SentinelGroup, plain_client
from tests.servers import Server
from tests.topology.load import RESUME_S, Load, loading
from tests.waiting import until


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
        async with (
            loading(store, "echo", durability="replica") as after,
            loading(store, "echo") as hasty,  # what the old primary still takes in while it lives is lost
        ):
            pass
        assert hasty.first_after(promoted_s) < RESUME_S
        await all_succeed(running, load, after)


async def all_succeed(running: Dispatching, *loads: Load) -> None:
    """Every acknowledged job is there and succeeds, and the dispatcher never ended."""

    async def done() -> bool:
        return not [job_id for load in loads for job_id in await load.unfinished()]

    for load in loads:
        assert await load.missing() == []
    await until(done, timeout_s=60, every_s=0.1)
    assert not running.task.done()


@pytest.mark.long
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


OLD, NEW = 65_001, 10_001
"""Ports; the old primary's is the greater, so that it would win where addresses are compared."""


@dataclass(slots=True)
class Described:
    """What a Sentinel says: its configuration's epoch, and the ports of the primary, asked for and as described."""

    epoch: int
    port: int
    described: int
    flags: str = "master"
    asked: int = 0


async def describe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, as_: Described) -> None:
    """A Sentinel that answers what it is told to."""
    while data := await reader.read(4096):
        if as_.flags == "away":
            break
        for command in data.decode().upper().split("SENTINEL")[1:]:
            as_.asked += 1
            facts = ["ip", "127.0.0.1", "port", str(as_.described), "config-epoch", str(as_.epoch), "flags", as_.flags]
            words = facts if "GET-MASTER" not in command else ["127.0.0.1", str(as_.port)]
            writer.write(f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
        if "SENTINEL" not in data.decode().upper():
            writer.write(b"+OK\r\n" * data.count(b"*"))
        await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def told_by(*sentinels: Described) -> AsyncIterator[SentinelClient]:
    """A client that such Sentinels lead."""
    async with contextlib.AsyncExitStack() as stack:
        ports = []
        for each in sentinels:
            server = await asyncio.start_server(functools.partial(describe, as_=each), "127.0.0.1", 0)
            await stack.enter_async_context(server)
            ports.append(server.sockets[0].getsockname()[1])
        places = ",".join(f"127.0.0.1:{port}" for port in ports)
        client = SentinelClient.named_by(parse_redis_url(f"redis+sentinel://{places}/{MASTER}"), reply_timeout_s=1.0)
        try:
            yield client
        finally:
            await client.aclose()


async def test_promoted_server_is_the_primary_while_a_sentinel_still_describes_the_old_one() -> None:
    leader, other = Described(7, NEW, OLD), Described(7, NEW, NEW)
    async with told_by(leader, other, other) as client:
        assert await client.primary.locate() == ("127.0.0.1", NEW)


async def test_primary_that_was_replaced_while_it_lives_is_left_and_nobody_cut_off_leads_back() -> None:
    with Server(tcp=True) as old, Server(tcp=True) as new, new.client() as there:
        said = Described(3, old.port, old.port)
        async with told_by(said) as client:
            client.primary.look_s = 0.05
            await client.set("written", "before")
            said.epoch, said.port = 4, new.port

            async def moved() -> bool:
                await client.set("written", "after")
                return bool(there.exists("written"))

            await until(moved)
            said.epoch, said.port = 3, old.port  # what one believes that was cut off from the others
            before = said.asked

            async def asked_again() -> bool:
                await client.set("written", "meanwhile")
                return said.asked > before + 4

            await until(asked_again)
            await client.set("written", "at last")
            assert there.get("written") == "at last"


@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        (("master", "master", "master"), True),
        (("master", "master", "s_down,master"), True),  # it alone is cut off from the primary
        (("master", "s_down,master", "s_down,o_down,master"), False),
        (("master", "master", "master,failover_in_progress"), False),
        (("master", "master", "away"), True),
        (("master", "away", "away"), False),
    ],
)
async def test_job_counts_as_replicated_only_while_most_sentinels_take_its_server_for_the_primary(
    flags: tuple[str, ...], taken: bool
) -> None:
    with Server(tcp=True) as server:
        said = [Described(1, server.port, server.port) for _ in flags]
        async with told_by(*said) as client:
            store = Store(client, namespace="default", partitions=1, lanes=("default",))
            store.expect_durability("replica", replicas=0)
            await store.submit([Submission(store.new_id(1), "t", b"{}")])
            for each, flag in zip(said, flags, strict=True):
                each.flags = flag
            job = Submission(store.new_id(1), "t", b"{}")
            if taken:
                assert [each.verdict for each in await store.submit([job])] == ["accepted"]
            else:
                with pytest.raises(StoreShort, match="may have been replaced"):
                    await store.submit([job])
                for each in said:
                    each.flags = "master"
                assert [each.verdict for each in await store.submit([job])] == ["accepted"]


async def test_job_does_not_count_as_replicated_where_its_server_was_replaced_meanwhile() -> None:
    with Server(tcp=True) as old, Server(tcp=True) as new:
        said = [Described(1, old.port, old.port) for _ in range(3)]
        async with told_by(*said) as client:
            store = Store(client, namespace="default", partitions=1, lanes=("default",))
            store.expect_durability("replica", replicas=0)
            await store.submit([Submission(store.new_id(1), "t", b"{}")])
            for each in said[:2]:
                each.epoch, each.port, each.described = 2, new.port, new.port
            with pytest.raises(StoreShort, match="may have been replaced"):
                await store.submit([Submission(store.new_id(1), "t", b"{}")])

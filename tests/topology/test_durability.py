"""What was acknowledged is where it was asked to be: on disk, on replicas; and a repeat does not pass for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from gateway.errors import StoreError, StoreShort
from gateway.jobs import Idempotency, Submission
from gateway.keys import JobIds
from gateway.settings import Settings
from gateway.store import Store
from tests.api.running import running, settings_for
from tests.dispatch.running import dispatching
from tests.groups import ClusterGroup, SentinelGroup, plain_client
from tests.servers import Server
from tests.topology.load import loading

pytestmark = pytest.mark.long

IDS = JobIds()


class Pair:
    """A primary and its replica."""

    def __init__(self) -> None:
        self.primary = Server(tcp=True, extra=["--repl-diskless-sync-delay", "0"])
        self.replica: Server | None = None

    def start(self) -> None:
        self.primary.start()
        self.replica = Server(tcp=True, extra=["--replicaof", "127.0.0.1", str(self.primary.port)])
        self.replica.start()
        self.catch_up()

    def catch_up(self) -> None:
        """Returns once the replica has all that was written."""
        with plain_client(self.primary.port, timeout_s=15) as client:
            client.set("probe", "1")
            assert client.wait(1, 10_000) == 1

    def close(self) -> None:
        self.primary.close()
        if self.replica is not None:
            self.replica.close()

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """The replica falls silent meanwhile."""
        assert self.replica is not None
        self.catch_up()  # or what was written before would not be there either, and be what is waited for
        self.replica.suspend()
        try:
            yield
        finally:
            self.replica.resume()
            self.catch_up()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    pair = Pair()
    try:
        pair.start()
        yield pair
    finally:
        pair.close()


@pytest.fixture
async def store(pair: Pair, namespace: str) -> AsyncIterator[Store]:
    store = await Store.open(f"redis://127.0.0.1:{pair.primary.port}/0", namespace=namespace)
    yield store
    await store.aclose()


def once(key: str) -> Submission:
    """A job with an idempotency key; each has an id of its own, as each request of a client does."""
    return Submission(IDS.new(1, 0), "t", b"{}", idempotency=Idempotency(key, "f", 60_000))


@pytest.fixture
async def other(pair: Pair, store: Store, namespace: str) -> AsyncIterator[Store]:
    """Another gateway: a connection that has written waits for that write anyway, and hides what a repeat lacks."""
    other = await Store.open(f"redis://127.0.0.1:{pair.primary.port}/0", namespace=namespace)
    yield other
    await other.aclose()


async def test_repeat_waits_for_the_replica_as_the_first_try_did(pair: Pair, store: Store, other: Store) -> None:
    assert (await store.submit([once("a")], "replica"))[0].verdict == "accepted"
    first = once("b")
    with pair.cut_off():
        with pytest.raises(StoreShort, match="0 of 1 replicas"):
            await store.submit([first], "replica")
        for _ in range(2):  # what it wrote is there already, and not on the replica for all that
            with pytest.raises(StoreShort, match="same idempotency key"):
                await other.submit([once("b")], "replica")
        assert (await store.submit([once("c")]))[0].verdict == "accepted"
    answer = (await other.submit([once("b")], "replica"))[0]
    assert (answer.verdict, answer.job_id) == ("duplicate", first.job_id)


async def test_scripts_that_the_server_forgot_do_not_make_the_wait_pass(pair: Pair, store: Store) -> None:
    await store.client.script_flush()
    with pair.cut_off(), pytest.raises(StoreShort):
        await store.submit([once("a")], "replica")


async def test_submits_that_wait_hold_up_neither_each_other_nor_others(pair: Pair, store: Store) -> None:
    with pair.cut_off():
        waiting = [asyncio.create_task(store.submit([once(f"k{at}")], "replica")) for at in range(4)]
        await asyncio.sleep(0)
        async with asyncio.timeout(1):
            assert (await store.submit([once("plain")]))[0].verdict == "accepted"
        done = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, StoreShort) for each in done)


async def test_fsync_waits_for_the_disk_and_says_where_there_is_none(namespace: str) -> None:
    aof = ["--appendonly", "yes", "--appendfsync"]
    for extra, expected in (([*aof, "always"], None), ([*aof, "no"], StoreShort), ([], StoreError)):
        with Server(extra=extra) as server:
            store = await Store.open(server.url, namespace=namespace)
            try:
                if expected is None:
                    assert (await store.submit([once("a")], "fsync"))[0].verdict == "accepted"
                else:
                    with pytest.raises(expected):
                        await store.submit([once("a")], "fsync")
            finally:
                await store.aclose()


async def test_request_asks_for_replicas_and_is_told_to_come_again(pair: Pair, namespace: str, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, f"redis://127.0.0.1:{pair.primary.port}/0", namespace)
    async with running(settings) as api:

        async def submit(durability: str) -> httpx.Response:
            headers = {"Prefer": f"durability={durability}", "Idempotency-Key": "order-7"}
            return await api.client.post("/jobs", json={"target": "echo"}, headers=headers)

        with pair.cut_off():
            answer = await submit("replica")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "on 0 of 1 replicas" in answer.json()["detail"]
            assert (await submit("replica")).status_code == 503
        answer = await submit("replica")
        assert (answer.status_code, answer.json()["duplicate"]) == (200, True)
        assert answer.headers["preference-applied"] == "durability=replica"
        answer = await submit("replcia")
        assert (answer.status_code, "memory, fsync, replica" in answer.json()["detail"]) == (400, True)


async def test_gateway_is_set_to_replicas_for_all_of_its_requests(pair: Pair, namespace: str, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{pair.primary.port}/0"
    settings = settings_for(tmp_path, url, namespace, GATEWAY_GATEWAY_DURABILITY="replica")
    async with running(settings) as api:
        with pair.cut_off():
            assert (await api.client.post("/jobs", json={"target": "echo"})).status_code == 503
            headers = {"Prefer": "durability=memory"}
            assert (await api.client.post("/jobs", json={"target": "echo"}, headers=headers)).status_code == 202
        assert (await api.client.post("/jobs", json={"target": "echo"})).status_code == 202


async def test_nothing_acknowledged_by_a_replica_is_lost_in_a_failover_under_load(
    sentinels: SentinelGroup, sentinel_settings: Settings
) -> None:
    async with dispatching(sentinel_settings) as running_:
        async with loading(running_.client.store, "echo", producers=8, durability="replica") as load:
            await load.more(200)
            await asyncio.to_thread(sentinels.fail_over)
            await load.more(100)
        assert await load.missing() == []
        assert not running_.task.done()


@pytest.mark.long
async def test_nothing_acknowledged_by_a_replica_is_lost_when_a_primary_of_a_cluster_dies_under_load(
    cluster: ClusterGroup, cluster_settings: Settings
) -> None:
    async with dispatching(cluster_settings) as running_:
        store = running_.client.store
        async with loading(store, "echo", producers=8, durability="replica") as load:
            await load.more(200)
            await asyncio.to_thread(cluster.fail_over, cluster.owner(store.keyspaces[0].prefix))
            # until it has a replica again, what the new primary holds is acknowledged to nobody
            await asyncio.to_thread(cluster.bring_back)
            await load.more(100)
        assert await load.missing() == []
        assert not running_.task.done()

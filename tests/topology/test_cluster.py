"""A Cluster of three primaries and three replicas: laid out, failed over and moved about while work goes on."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.crc import key_slot

from gateway.errors import StoreMismatch, StoreUnavailable
from gateway.jobs import Submission
from gateway.redis_url import CLUSTER_PARTITIONS
from gateway.settings import Settings
from gateway.store import Store
from gateway.store.cluster import FORMER_MOST
from gateway.store.connection import Client, connect
from tests.dispatch.running import Dispatching, dispatching
from tests.groups import ClusterGroup
from tests.servers import Server
from tests.topology.load import RESUME_S, Load, loading
from tests.waiting import until


async def all_succeed(running: Dispatching, load: Load) -> None:
    """Every acknowledged job is there and succeeds, and the dispatcher never ended."""

    async def done() -> bool:
        return not await load.unfinished()

    assert await load.missing() == []
    await until(done, timeout_s=60, every_s=0.1)
    assert not running.task.done()


async def test_jobs_of_every_partition_run_and_primaries_share_them(
    cluster: ClusterGroup, cluster_settings: Settings
) -> None:
    async with dispatching(cluster_settings) as running:
        store = running.client.store
        assert store.partitions == CLUSTER_PARTITIONS
        assert len({cluster.owner(keyspace.prefix).port for keyspace in store.keyspaces}) == 3
        async with loading(store, "echo", producers=4) as load:
            await load.more(200)
        assert {int(job_id[-2:], 16) for job_id in load.acknowledged} == set(range(CLUSTER_PARTITIONS))
        await all_succeed(running, load)


async def test_nothing_is_lost_and_no_dispatcher_ends_when_a_primary_dies(
    cluster: ClusterGroup, cluster_settings: Settings
) -> None:
    async with dispatching(cluster_settings) as running:
        store = running.client.store
        victim = cluster.owner(store.keyspaces[0].prefix)
        async with (
            loading(store, "echo", producers=4, durability="replica") as load,
            loading(store, "echo") as others,  # what durability "memory" may lose is looked at elsewhere
        ):
            await load.more(50)
            await asyncio.to_thread(cluster.fail_over, victim)
            promoted_s = time.monotonic()
            await others.more(50)
            await asyncio.to_thread(cluster.bring_back)  # without a replica nothing is acknowledged there
            await load.more(50)
        assert others.first_after(promoted_s) < RESUME_S
        await all_succeed(running, load)


@pytest.mark.long
async def test_no_job_is_lost_or_refused_for_long_when_slots_move_whole(
    cluster: ClusterGroup, cluster_settings: Settings
) -> None:
    async with dispatching(cluster_settings) as running:
        store = running.client.store
        async with loading(store, "echo", producers=4) as load:
            for keyspace in store.keyspaces[:6]:
                source = cluster.owner(keyspace.prefix)
                target = next(node for node in cluster.primaries() if node is not source)
                await asyncio.to_thread(cluster.move_slot, key_slot(keyspace.prefix.encode()), target)
                await load.more(20)
        await all_succeed(running, load)


async def test_partition_is_away_and_stays_whole_while_its_slot_moves_key_by_key(
    cluster: ClusterGroup, namespace: str
) -> None:
    store = await Store.open(cluster.url, namespace=namespace, partitions=4)
    try:
        jobs = [_job(store, partition) for partition in range(4) for _ in range(5)]
        await store.submit(jobs)
        prefix = store.keyspaces[1].prefix
        source = cluster.owner(prefix)
        target = next(node for node in cluster.primaries() if node is not source)
        end = cluster.begin_move(prefix, target)
        with pytest.raises(StoreUnavailable, match="ASK"):
            await store.submit([_job(store, 1)])
        assert {each.verdict for each in await store.submit([_job(store, 2)])} == {"accepted"}
        await asyncio.to_thread(end)
        assert {each.verdict for each in await store.submit([_job(store, 1)])} == {"accepted"}
        assert None not in await store.find_many([job.job_id for job in jobs])
        assert (await store.inspect()).lanes["default"].pending == len(jobs) + 2
    finally:
        await store.aclose()


def _job(store: Store, partition: int) -> Submission:
    while True:
        job_id = store.new_id(1)
        if job_id.endswith(f"{partition:02x}"):
            return Submission(job_id, "t", b"{}")


async def test_another_number_of_partitions_than_the_data_has_stops_the_start(
    cluster: ClusterGroup, namespace: str
) -> None:
    await (await Store.open(cluster.url, namespace=namespace, partitions=4)).aclose()
    with pytest.raises(StoreMismatch, match=r"4 partitions, the configuration says 16: set gateway.partitions = 4"):
        await Store.open(cluster.url, namespace=namespace, partitions=16)


async def test_cluster_that_is_away_is_unavailable(namespace: str) -> None:
    with pytest.raises(StoreUnavailable, match="none of 2 nodes"):
        await Store.open("redis+cluster://127.0.0.1:1,127.0.0.1:2", namespace=namespace)


async def test_only_the_last_of_the_nodes_that_are_gone_are_asked_and_connected_to() -> None:
    hosts = [f"127.0.0.{number}" for number in range(1, FORMER_MOST + 4)]
    with Server(cluster=True, extra=["--bind", *hosts]) as server, server.client() as admin:
        client = connect(server.url)

        async def few() -> bool:
            # asked again, for one that was late to answer is connected to only then
            asked = await _leads_to(client, hosts[-1])
            connected = {each["laddr"].partition(":")[0] for each in admin.client_list()}
            return asked and connected == {hosts[0], *hosts[-FORMER_MOST - 1 :]}

        try:
            for host in hosts:
                admin.config_set("cluster-announce-ip", host)
                await until(lambda host=host: _leads_to(client, host))  # type: ignore[misc]
            await until(few)
        finally:
            await client.aclose()


async def _leads_to(client: Client, host: str) -> bool:
    """Whether what is asked goes to that address, as it does a moment after there is doubt."""
    client.doubt()
    await client.call("GET", "x")
    (server,) = await client.servers()
    found: str = server.connection_pool.connection_kwargs["host"]
    return found == host

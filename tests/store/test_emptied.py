"""A partition whose data is gone: nobody claims from it until what is configured is registered there again."""

from __future__ import annotations

import pytest

from gateway.errors import StoreUnavailable
from gateway.store import Store
from tests.store.site import Site

T = "paid"


async def lose_all(store: Store, namespace: str) -> None:
    for keyspace in store.keyspaces:
        async for key in store.client.scan_iter(match=f"{keyspace.prefix}*", count=10_000):
            await store.client.delete(key)


async def test_nothing_is_claimed_until_limits_are_registered_again(site: Site, store: Store, namespace: str) -> None:
    await store.control_flow(T, {"concurrency": 1})
    await lose_all(store, namespace)
    await site.clock.advance(0)
    ids = await site.put(3, target=T)
    with pytest.raises(StoreUnavailable, match="register"):
        await site.take(site.worker())
    await store.probe()
    with pytest.raises(StoreUnavailable, match="register"):
        await site.take(site.worker())
    assert not await store.is_registered(site.partition)
    await store.register()
    assert await store.is_registered(site.partition)
    assert await site.take(site.worker()) == ids[:1]


async def test_data_that_another_process_registered_anew_is_not_the_one_from_before(
    site: Site, store: Store, namespace: str
) -> None:
    assert await store.is_registered(site.partition)
    await lose_all(store, namespace)
    other = Store(store.client, namespace=namespace, partitions=store.partitions, lanes=store.lanes)
    await other.register()
    assert await other.is_registered(site.partition)
    assert not await store.is_registered(site.partition)
    assert other.signing_keys != store.signing_keys


async def test_signing_key_is_the_one_from_before_when_it_is_registered_again(
    site: Site, store: Store, namespace: str
) -> None:
    before = store.signing_keys
    await lose_all(store, namespace)
    await store.read_signing_keys()  # as whoever looks for registered targets does
    await store.register()
    assert [key.reveal() for key in store.signing_keys] == [key.reveal() for key in before]

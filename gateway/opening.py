"""Makes the store that the settings describe: the one place that knows which setting the store needs to hear of."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.settings import Settings
from gateway.store import Store
from gateway.store.connection import REPLY_TIMEOUT_S, connect


def make_store(
    settings: Settings,
    redis_url: str,
    *,
    flows: Mapping[str, Mapping[str, int]] | None = None,
    reply_timeout_s: float = REPLY_TIMEOUT_S,
) -> Store:
    """The store, not connected yet: `await store.configure()` is what may fail. `flows` as the registry has them."""
    store = Store(
        connect(redis_url, reply_timeout_s=reply_timeout_s),
        namespace=settings.gateway.namespace,
        partitions=settings.partitions,
        lanes=settings.lanes.order,
    )
    store.expect_rules(dead_most=settings.retention.dead_max, lane_caps=settings.lanes.max_depth)
    store.expect_durability(settings.gateway.durability, replicas=settings.gateway.replicas)
    store.expect_flows(flows or {})
    return store

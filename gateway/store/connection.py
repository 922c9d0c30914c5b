"""Connections to Redis: the one place that turns a URL into a client, whatever it names."""

from __future__ import annotations

from gateway.redis_url import parse_redis_url
from gateway.store.client import CONNECT_TIMEOUT_S, REPLY_TIMEOUT_S, Client
from gateway.store.cluster import Cluster
from gateway.store.refusals import store_error
from gateway.store.sentinel import SentinelClient


def connect(url: str, *, reply_timeout_s: float = REPLY_TIMEOUT_S) -> Client:
    """An asyncio client with pools of its own; connects, and finds its servers, on first use."""
    parts = parse_redis_url(url)
    if parts.kind == "sentinel":
        return SentinelClient.named_by(parts, reply_timeout_s=reply_timeout_s)
    if parts.kind == "cluster":
        return Cluster.around(parts, reply_timeout_s=reply_timeout_s)
    return Client.to(url, reply_timeout_s=reply_timeout_s)


__all__ = ["CONNECT_TIMEOUT_S", "REPLY_TIMEOUT_S", "Client", "connect", "store_error"]

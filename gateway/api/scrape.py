"""`/metrics`: gathered from Redis first, rendered then."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gateway.api.call import Call
from gateway.api.reply import Reply
from gateway.figures import read_figures
from gateway.jobs import CALLBACK_TARGET


async def scrape(call: Call) -> Reply:
    """Every metric; raises StoreError only where Redis cannot be read."""
    gateway = call.gateway
    targets = [*gateway.registry.targets, CALLBACK_TARGET]
    figures = await call.in_time(lambda: read_figures(gateway.store, targets))
    own = gateway.metrics.render(lag_s=gateway.lag.seconds, streams=gateway.events.followers)
    return Reply(200, figures + own, CONTENT_TYPE_PLAIN_0_0_4.encode())

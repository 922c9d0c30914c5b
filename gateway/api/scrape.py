"""`/metrics`: gathered from Redis first, rendered then."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gateway.api.call import Call
from gateway.api.reply import Reply


async def scrape(call: Call) -> Reply:
    """Every metric; raises StoreError only where Redis cannot be read."""
    inspection = await call.in_time(call.gateway.store.inspect)
    body = call.gateway.metrics.render(inspection, lag_s=call.gateway.lag.seconds)
    return Reply(200, body, CONTENT_TYPE_PLAIN_0_0_4.encode())

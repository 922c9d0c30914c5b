"""`/metrics`: gathered from Redis first, rendered then."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gateway.api.call import Call
from gateway.api.reply import Reply
from gateway.errors import StoreError
from gateway.figures import read_figures
from gateway.jobs import CALLBACK_TARGET, URL_TARGET


async def scrape(call: Call) -> Reply:
    """Every metric; 503 with what this process counts only where Redis cannot be read."""
    gateway = call.gateway
    targets = [*gateway.registry.targets, CALLBACK_TARGET, URL_TARGET]
    try:
        await call.in_time(gateway.gate.require)
        figures = await call.in_time(lambda: read_figures(gateway.store, targets))
        status = 200
    except StoreError:
        figures, status = b"", 503
    gateway.vitals.scraped(redis_up=status == 200)
    headers = () if status == 200 else ((b"retry-after", b"1"),)
    return Reply(status, figures + gateway.totals.render(), CONTENT_TYPE_PLAIN_0_0_4.encode(), headers=headers)

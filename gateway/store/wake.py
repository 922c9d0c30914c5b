"""Wake-ups by sharded pub/sub: a hint that there is work, behind which a poll guarantees progress."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog
from redis.exceptions import RedisError

from gateway.keys import Keyspace
from gateway.store.channels import follow
from gateway.store.client import Client

log = structlog.get_logger(__name__)

_RECONNECT_S = (0.05, 2.0)


async def listen(
    client: Client,
    dispatcher_id: str,
    keyspaces: Sequence[Keyspace],
    *,
    on_wake: Callable[[int], None],
    on_cancel: Callable[[str], None],
    on_posted: Callable[[int], None] = lambda partition: None,
) -> None:
    """Calls `on_wake(partition)` for every wake-up, and for all after each (re)connection; runs until cancelled.

    `on_cancel(job_id)` is called where a running job's cancellation is asked for, `on_posted(partition)` where
    something was put into an outbox.
    """
    channels = [(keyspace, keyspace.wake(dispatcher_id)) for keyspace in keyspaces]
    delay_s = _RECONNECT_S[0]

    async def subscribed() -> None:
        nonlocal delay_s
        delay_s = _RECONNECT_S[0]
        for keyspace in keyspaces:
            on_wake(keyspace.partition)

    def received(keyspace: Keyspace, text: str) -> None:
        word, _, job_id = text.partition(" ")
        if word == "cancel":
            on_cancel(job_id)
        elif word == "forward":
            on_posted(keyspace.partition)
        else:
            on_wake(keyspace.partition)

    while True:
        try:
            await follow(client, channels, subscribed=subscribed, received=received)
        except (RedisError, OSError) as error:
            log.warning("wake-ups interrupted", error=str(error), retry_in_s=round(delay_s, 2))
        await asyncio.sleep(delay_s * random.uniform(0.5, 1.5))  # noqa: S311 (jitter)
        delay_s = min(_RECONNECT_S[1], delay_s * 2)

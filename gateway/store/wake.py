"""Wake-ups by sharded pub/sub: a hint that there is work, behind which a poll guarantees progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog
from redis.exceptions import RedisError

from gateway.keys import Keyspace
from gateway.pauses import Pauses
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
    on_handed: Callable[[int, bytes], None] = lambda partition, told: None,
) -> None:
    """Calls `on_wake(partition)` for every wake-up, and for all after each (re)connection; runs until cancelled.

    `on_cancel(job_id)` is called where a running job's cancellation is asked for, `on_posted(partition)` where
    something was put into an outbox, `on_handed(partition, told)` where a submit has made the standby claim.
    """
    channels = [(keyspace, keyspace.wake(dispatcher_id)) for keyspace in keyspaces]
    pauses = Pauses(*_RECONNECT_S)

    async def subscribed() -> None:
        pauses.begin_anew()
        for keyspace in keyspaces:
            on_wake(keyspace.partition)

    def received(keyspace: Keyspace, message: bytes) -> None:
        word, _, rest = message.partition(b" ")
        if word == b"claimed":
            on_handed(keyspace.partition, rest)
        elif word == b"cancel":
            on_cancel(rest.decode())
        elif word == b"forward":
            on_posted(keyspace.partition)
        else:
            on_wake(keyspace.partition)

    while True:
        try:
            await follow(client, channels, subscribed=subscribed, received=received)
        except (RedisError, OSError) as error:
            pause_s = pauses.next_s()
            log.warning("wake-ups interrupted", error=str(error), retry_in_s=round(pause_s, 2))
            await asyncio.sleep(pause_s)

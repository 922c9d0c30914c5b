"""Wake-ups by sharded pub/sub: a hint that there is work, behind which a poll guarantees progress."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.keys import Keyspace

log = structlog.get_logger(__name__)

_RECONNECT_S = (0.05, 2.0)


async def listen(
    client: Redis,
    dispatcher_id: str,
    keyspaces: Sequence[Keyspace],
    *,
    on_wake: Callable[[int], None],
    on_cancel: Callable[[str], None],
) -> None:
    """Calls `on_wake(partition)` for every wake-up, and for all after each (re)connection; runs until cancelled.

    `on_cancel(job_id)` is called where a running job's cancellation is asked for.
    """
    partitions = {keyspace.wake(dispatcher_id).encode(): keyspace.partition for keyspace in keyspaces}
    delay_s = _RECONNECT_S[0]
    while True:
        pubsub = client.pubsub(ignore_subscribe_messages=True)
        try:
            for channel in partitions:  # one by one: a cluster refuses channels of several slots in one command
                await pubsub.ssubscribe(channel.decode())
            for partition in partitions.values():
                on_wake(partition)
            delay_s = _RECONNECT_S[0]
            while True:
                message = await pubsub.get_message(timeout=30.0)
                if message is not None and message["channel"] in partitions:
                    _hand_over(message, partitions, on_wake, on_cancel)
        except (RedisError, OSError) as error:
            log.warning("wake-ups interrupted", error=str(error), retry_in_s=round(delay_s, 2))
        finally:
            await pubsub.aclose()
        await asyncio.sleep(delay_s * random.uniform(0.5, 1.5))  # noqa: S311 (jitter)
        delay_s = min(_RECONNECT_S[1], delay_s * 2)


def _hand_over(
    message: dict[str, Any],
    partitions: dict[bytes, int],
    on_wake: Callable[[int], None],
    on_cancel: Callable[[str], None],
) -> None:
    word, _, job_id = message["data"].decode().partition(" ")
    if word == "cancel":
        on_cancel(job_id)
    else:
        on_wake(partitions[message["channel"]])

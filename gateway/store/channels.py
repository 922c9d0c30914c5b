"""Sharded channels, one in each partition, on a connection to every server that holds some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from gateway.keys import Keyspace
from gateway.store.client import CONNECT_TIMEOUT_S, REPLY_TIMEOUT_S, Client
from gateway.store.subscription import Subscription

IDLE_S = 15.0
"""A connection that says nothing for so long is asked whether it is still there."""


async def follow(
    client: Client,
    channels: Sequence[tuple[Keyspace, str]],
    *,
    subscribed: Callable[[], Awaitable[None]],
    received: Callable[[Keyspace, bytes], None],
    idle_s: float = IDLE_S,
) -> NoReturn:
    """Subscribes to a channel per partition, and hands on what is said there until the first interruption.

    `subscribed` is called once every server has confirmed every channel: from then on nothing is missed. Raises the
    library's errors, or OSError: a connection was lost or fell silent, or a partition went to another server.
    """
    groups: dict[Client, list[tuple[Keyspace, str]]] = {}
    for keyspace, channel in channels:
        groups.setdefault(await client.server_of(keyspace.prefix), []).append((keyspace, channel))
    opened: list[Subscription] = []

    async def subscribe(server: Client, group: Sequence[tuple[Keyspace, str]]) -> None:
        keyspaces = {channel.encode(): keyspace for keyspace, channel in group}
        connection = await server.dial()
        subscription = Subscription(connection, keyspaces, received, idle_s=idle_s, reply_timeout_s=REPLY_TIMEOUT_S)
        opened.append(subscription)
        async with asyncio.timeout(CONNECT_TIMEOUT_S + REPLY_TIMEOUT_S):
            await subscription.confirmed()

    try:
        await _all([subscribe(server, group) for server, group in groups.items()])
        await subscribed()
        ends = [subscription.over for subscription in opened]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        raise next(end.result() for end in ends if end.done())
    except BaseException as error:
        if isinstance(error, Exception):
            client.failed(error)
        raise
    finally:
        for subscription in opened:  # all of them before the first await: it may be cancelled again
            subscription.close()
        for subscription in opened:
            await subscription.closed()


async def _all(works: Sequence[Awaitable[None]]) -> None:
    """Returns once all are done. Raises what the first to fail raised, once the others have ended: one that went on
    would leave a connection behind that nobody closes."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

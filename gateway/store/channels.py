"""Sharded channels, one in each partition, on a connection to every server that holds some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError

from gateway.keys import Keyspace
from gateway.store.client import CONNECT_TIMEOUT_S, REPLY_TIMEOUT_S, Client

IDLE_S = 15.0
"""A connection that says nothing for so long is asked whether it is still there."""


async def follow(
    client: Client,
    channels: Sequence[tuple[Keyspace, str]],
    *,
    subscribed: Callable[[], Awaitable[None]],
    received: Callable[[Keyspace, str], None],
) -> NoReturn:
    """Subscribes to a channel per partition, and hands on what is said there until the first interruption.

    `subscribed` is called once every server has confirmed every channel: from then on nothing is missed. Raises the
    library's errors, or OSError: a connection was lost, or a partition went to another server.
    """
    groups: dict[Client, list[tuple[Keyspace, str]]] = {}
    for keyspace, channel in channels:
        groups.setdefault(await client.server_of(keyspace.prefix), []).append((keyspace, channel))
    links = [_Link(server.pubsub(), group, received) for server, group in groups.items()]
    try:
        await _all([link.subscribe for link in links])
        await subscribed()
        await _first_to_fail([link.listen for link in links])
    except BaseException as error:
        if isinstance(error, Exception):
            client.failed(error)
        raise
    finally:
        for link in links:
            await link.pubsub.aclose()
    raise ConnectionError("the channels were closed")


async def _all(works: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Returns once all are done. Raises what the first to fail raised, once the others have ended: one that still read
    from a connection that has been given back would take another caller's replies."""
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first_to_fail(works: Sequence[Callable[[], Awaitable[None]]]) -> None:
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Link:
    """The channels of one server."""

    def __init__(
        self, pubsub: PubSub, group: Sequence[tuple[Keyspace, str]], received: Callable[[Keyspace, str], None]
    ) -> None:
        self.pubsub = pubsub
        self._keyspaces = {channel.encode(): keyspace for keyspace, channel in group}
        self._received = received

    async def subscribe(self) -> None:
        """Returns once the server has confirmed every channel; before that, a message could be missed."""
        missing = set(self._keyspaces)
        for channel in missing:  # one by one: a cluster refuses channels of several slots in one command
            await self.pubsub.ssubscribe(channel.decode())
        async with asyncio.timeout(CONNECT_TIMEOUT_S + REPLY_TIMEOUT_S):
            while missing:
                message = await self._next(CONNECT_TIMEOUT_S)
                if message is not None and message["type"] == "ssubscribe":
                    missing.discard(message["channel"])

    async def listen(self) -> None:
        """Hands messages on until the connection fails, falls silent, or loses a channel."""
        asked = False
        while True:
            message = await self._next(REPLY_TIMEOUT_S if asked else IDLE_S)
            if message is None:
                if asked:
                    raise ConnectionError("the connection fell silent")
                await self.pubsub.ping()
                asked = True
                continue
            asked = False
            if message["type"] == "smessage":
                self._received(self._keyspaces[message["channel"]], message["data"].decode())
            elif message["type"] == "sunsubscribe":
                raise ConnectionError("the partition went to another server")

    async def _next(self, timeout_s: float) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self.pubsub.get_message(timeout=timeout_s)
        return found

"""The channels of one server: messages handed on in the turn of the event loop in which they come.

The client library reads each message through a dozen coroutines and a timer, which takes 90 µs of an idle dispatcher's
first move. It still makes the connection, as for `link`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError, InvalidResponse

from gateway.keys import Keyspace
from gateway.store.link import NOTHING, Command, parser_of


class Subscription(asyncio.Protocol):
    """Takes over a connection that the library has made, and subscribes there; close it with `close()`.

    `received(keyspace, message)` is called for each message. `over` gets what ended it: the connection was lost, said
    nothing for `idle_s` and then did not answer within `reply_timeout_s`, or a channel was taken away or refused.
    """

    def __init__(
        self,
        connection: Any,
        channels: Mapping[bytes, Keyspace],
        received: Callable[[Keyspace, bytes], None],
        *,
        idle_s: float,
        reply_timeout_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[Exception] = self._loop.create_future()
        self._connection = connection
        self._channels = channels
        self._received = received
        self._idle_s = idle_s
        self._reply_timeout_s = reply_timeout_s
        self._parser = parser_of(connection)
        self._missing = set(channels)
        self._confirmed = asyncio.Event()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._heard_s = self._loop.time()
        self._asked = False
        self._timer = self._loop.call_later(idle_s, self._look)
        self._transport: asyncio.Transport = connection._writer.transport
        self._transport.set_protocol(self)
        # one by one: a cluster refuses channels of several slots in one command
        self._send([("SSUBSCRIBE", channel) for channel in channels])

    async def confirmed(self) -> None:
        """Returns once the server has confirmed every channel: before that, a message could be missed.

        Raises what ended it, if that comes first.
        """
        await self._confirmed.wait()
        if self.over.done():
            raise self.over.result()

    def close(self) -> None:
        """Closes the connection; no message is handed on from here on."""
        self._end(ConnectionError("the channels were closed"))

    async def closed(self) -> None:
        """Returns once the connection is gone."""
        await asyncio.wait([self._closed], timeout=self._reply_timeout_s)

    def data_received(self, data: bytes) -> None:
        self._heard_s, self._asked = self._loop.time(), False
        parser = self._parser
        parser.feed(data)
        try:
            while not self.over.done() and (reply := parser.gets()) is not NOTHING:
                self._take(reply)
        except InvalidResponse as error:
            self._end(ConnectionError(f"the server sent what is no reply: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionError(f"the connection was lost: {exc}" if exc else "the server closed the connection"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _take(self, reply: Any) -> None:
        match reply:
            case Exception():
                self._end(reply)
            case [b"smessage", bytes(channel), bytes(message)] if channel in self._channels:
                self._received(self._channels[channel], message)
            case [b"ssubscribe", channel, *_]:
                self._missing.discard(channel)
                if not self._missing:
                    self._confirmed.set()
            case [b"sunsubscribe", *_]:
                self._end(ConnectionError("the partition went to another server"))
            case [] | [_] | [b"smessage", *_]:  # pushes are lists as well; what remains answers PING
                self._end(ConnectionError(f"the server sent what is no message: {str(reply)[:80]}"))

    def _look(self) -> None:
        """Whether it has been silent for too long; looked at once in a while, not for each message."""
        limit_s = self._reply_timeout_s if self._asked else self._idle_s
        left_s = self._heard_s + limit_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        elif self._asked:
            self._end(ConnectionError("the connection fell silent"))
        else:
            self._asked, self._heard_s = True, self._loop.time()
            self._timer = self._loop.call_later(self._reply_timeout_s, self._look)
            self._send([("PING",)])

    def _send(self, commands: Sequence[Command]) -> None:
        try:
            self._transport.write(b"".join([hiredis.pack_command(command) for command in commands]))
        except RuntimeError as error:  # what uvloop says of a connection that was just lost
            self._end(ConnectionError(f"the connection was lost: {error}"))

    def _end(self, error: Exception) -> None:
        if self.over.done():
            return
        self.over.set_result(error)
        self._confirmed.set()
        self._timer.cancel()
        self._transport.abort()
        self._connection._reader = self._connection._writer = None


__all__ = ["Subscription"]

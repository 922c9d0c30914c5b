"""One connection that a process's calls share: commands leave as they come, replies are handed back in order.

The client library takes a connection out of its pool for each call, writes, and waits: some 180 µs for a call of two
scripts, where this takes 20, and calls that come together share a write. It still makes the connection: TLS, login,
names and the way to a primary stay its business.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError, InvalidResponse, TimeoutError

Arg = str | bytes | int | tuple[bytes, bytes]
"""The last is one text in two pieces: the second, which is long, is not copied to make one of them."""

Command = tuple[Any, ...]
"""Of such arguments."""

LONG_BYTES = 32_768
"""Of an argument that is written as it is, since copying it costs more than a piece of its own."""

NOTHING = object()
"""What the parser says while a reply is not whole."""


class _Sent:
    """Commands on their way: their replies so far, and by when the last one is due."""

    __slots__ = ("count", "due_s", "future", "replies")

    def __init__(self, count: int, future: asyncio.Future[list[Any]], due_s: float) -> None:
        self.count = count
        self.future = future
        self.due_s = due_s
        self.replies: list[Any] = []


class Link(asyncio.Protocol):
    """Takes over a connection that the library has made; `made_in` is the generation of its client it was made in.

    A caller that is cancelled only misses its reply. When the server closes the connection, or is silent for
    `timeout_s` while a reply is due (a long one may take longer to come), every caller that waits gets the library's
    ConnectionError or TimeoutError.
    """

    def __init__(self, connection: Any, *, timeout_s: float, made_in: int) -> None:
        self.made_in = made_in
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._timeout_s = timeout_s
        self._transport: asyncio.Transport = connection._writer.transport
        self._parser = parser_of(connection)
        self._waiting: deque[_Sent] = deque()
        self._heard_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._over: Exception | None = None
        self._retiring = False
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._transport.set_protocol(self)

    @property
    def usable(self) -> bool:
        """Whether commands may still be sent, as far as is known."""
        return self._over is None and not self._transport.is_closing()

    def send(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        """The commands in one write; the future has their replies, errors among them. Raises ConnectionError."""
        packed = [piece for command in commands for piece in pieces(command)]
        if not self.usable:
            raise self._over or ConnectionError("the connection is closed")
        try:
            if len(packed) == 1:
                self._transport.write(packed[0])
            else:
                self._transport.writelines(packed)
        except RuntimeError as error:  # what uvloop says of a connection that was just lost
            self._end(ConnectionError(f"the connection was lost: {error}"))
            raise ConnectionError(f"the connection was lost: {error}") from error
        sent = _Sent(len(commands), self._loop.create_future(), self._loop.time() + self._timeout_s)
        self._waiting.append(sent)
        if self._timer is None:
            self._timer = self._loop.call_at(sent.due_s, self._look)
        return sent.future

    def retire(self) -> None:
        """Closes once the replies that are still due have come, or will not."""
        self._retiring = True
        if not self._waiting:
            self._end(ConnectionError("the connection is closed"))

    async def aclose(self) -> None:
        """Closes now; who waits gets a ConnectionError."""
        self._end(ConnectionError("the connection is closed"))
        await asyncio.wait([self._closed], timeout=self._timeout_s)

    def data_received(self, data: bytes) -> None:
        parser, waiting = self._parser, self._waiting
        self._heard_s = self._loop.time()
        parser.feed(data)
        try:
            while (reply := parser.gets()) is not NOTHING:
                if isinstance(reply, hiredis.PushNotification):
                    continue
                sent = waiting[0]
                sent.replies.append(reply)
                if len(sent.replies) == sent.count:
                    waiting.popleft()
                    if not sent.future.done():
                        sent.future.set_result(sent.replies)
        except (InvalidResponse, IndexError) as error:
            self._end(ConnectionError(f"the server sent what was not asked for: {error}"))
            return
        if self._retiring and not waiting:
            self._end(ConnectionError("the connection is closed"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionError(f"the connection was lost: {exc}" if exc else "the server closed the connection"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _look(self) -> None:
        """Whether the oldest command has waited too long; looked at once in a while, not for each command."""
        self._timer = None
        if not self._waiting:
            return
        due_s = max(self._waiting[0].due_s, self._heard_s + self._timeout_s)
        if due_s <= self._loop.time():
            self._end(TimeoutError(f"no reply within {self._timeout_s:g} s"))
        else:
            self._timer = self._loop.call_at(due_s, self._look)

    def _end(self, error: Exception) -> None:
        if self._over is not None:
            return
        self._over = error
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        self._connection._reader = self._connection._writer = None
        waiting, self._waiting = self._waiting, deque()
        for sent in waiting:
            if not sent.future.done():
                sent.future.set_exception(alike(error))


def pieces(command: Command) -> Sequence[bytes]:
    """A command as it is written, in one piece or with each of its long arguments as it is: it may be a megabyte."""
    found: list[bytes] = []
    head, first = b"*%d\r\n" % len(command), 0
    for at, arg in enumerate(command):
        kind = arg.__class__  # since every argument of every call is asked for it
        if kind is tuple:
            begun, rest = arg
        elif kind is bytes and len(arg) >= LONG_BYTES:
            begun, rest = b"", arg
        else:
            continue
        if first < at:
            head += _bulks(command[first:at])
        found += (b"%b$%d\r\n%b" % (head, len(begun) + len(rest), begun), rest)
        head, first = b"\r\n", at + 1
    if not found:
        return (hiredis.pack_command(command),)
    found.append(head + _bulks(command[first:]))
    return found


def _bulks(args: Command) -> bytes:
    """Arguments, each with its length before it."""
    texts = [arg if arg.__class__ is bytes else str(arg).encode() for arg in args]
    return b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])


def alike(error: Exception) -> Exception:
    """The same failure for another caller: one that is raised anew keeps where it was raised before."""
    return type(error)(*error.args)


def parser_of(connection: Any) -> hiredis.Reader:
    """One that makes of an error's text the exception that the library would make of it."""
    make_error: Callable[[str], Exception] = connection._parser.parse_error
    return hiredis.Reader(protocolError=InvalidResponse, replyError=make_error, notEnoughData=NOTHING)


__all__ = ["NOTHING", "Arg", "Command", "Link", "alike", "parser_of"]

"""Connections: each connect attempt is checked, and a kept one is used again only while its peer keeps to HTTP."""

from __future__ import annotations

import asyncio
import functools
import socket
from ssl import SSLContext

from aiohttp import ClientRequest, ClientTimeout, StreamReader, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.http import RawResponseMessage
from aiohttp.tracing import Trace

from gateway.egress.addresses import Allowed, check_address
from gateway.egress.failures import TooManyAnswers
from gateway.egress.resolver import GuardedResolver, Lookup

KEEPALIVE_S = 4.0
"""Just under the 5 s after which common servers close an idle connection, so that few requests meet a closing one."""

DNS_CACHE_S = 5

MAX_ANSWERS = 16
"""Answers to one request, the interim ones (1xx) counted: aiohttp queues them without a bound."""


class Handler(ResponseHandler):
    """A connection that knows how often it was used, and what the peer has said to the present request."""

    uses = 0
    answered = False
    answers = 0

    def begin(self) -> None:
        """A request is about to be sent."""
        self.uses += 1
        self.answered = False
        self.answers = 0

    def data_received(self, data: bytes) -> None:
        self.answered = True
        super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for after each piece that was read of a body; has the parser look for more where it was held up."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self.answers += 1
        if self.answers <= MAX_ANSWERS:
            super().feed_data(data, size)
        elif self.transport is not None and not self.transport.is_closing():
            self.transport.abort()
            self.set_exception(TooManyAnswers(f"more than {MAX_ANSWERS} answers to one request"))


class Connector(TCPConnector):
    """Connects to allowed addresses only.

    It has no limit of its own: a dispatcher's slots and the targets' limits bound the connections, and a common
    limit would let one slow host hold up all others.
    """

    def __init__(self, lookup: Lookup, allowed: Allowed, tls: SSLContext) -> None:
        super().__init__(
            resolver=GuardedResolver(lookup, allowed),
            socket_factory=functools.partial(_checked_socket, allowed),
            ssl=tls,
            limit=0,
            ttl_dns_cache=DNS_CACHE_S,
            keepalive_timeout=KEEPALIVE_S,
        )
        self._outgoing: list[tuple[asyncio.Transport, bytes]] = []
        self._factory = functools.partial(_handler, self._loop)

    async def reach(
        self, request: ClientRequest, key: ConnectionKey, timeout: ClientTimeout, *, fresh: bool = False
    ) -> tuple[Connection, Handler]:
        """A connection ready to send on, a new one if `fresh`.

        Never one whose peer spoke unasked, since that would pass as our answer.
        """
        while True:
            kept = None if fresh else await super()._get(key, [])
            connection = kept or await self.connect(request, [], timeout)
            handler = connection.protocol
            if not isinstance(handler, Handler):
                raise TypeError("aiohttp made a connection of a foreign class")
            if handler.uses == 0 or not handler.should_close:
                break
            connection.close()
        handler.begin()
        return connection, handler

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        """What `connect` asks first: none is kept, since `reach` has looked, or wants a new one."""
        return None

    def send(self, transport: asyncio.Transport, data: bytes) -> None:
        """Writes with all else that is sent in this turn of the event loop.

        Each write to a peer that sleeps has the system wake it; a burst of them wakes it once.
        """
        if not self._outgoing:
            self._loop.call_soon(self._write)
        self._outgoing.append((transport, data))

    def _write(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        for transport, data in outgoing:
            if not transport.is_closing():
                transport.write(data)


def _handler(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return Handler(loop)


def _checked_socket(allowed: Allowed, info: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = info
    check_address(str(address[0]), allowed)
    return socket.socket(family, kind, protocol)

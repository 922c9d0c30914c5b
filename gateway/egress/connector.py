"""Connections: each connect attempt is checked, and a kept-alive one that the peer just closed is not a failure."""

from __future__ import annotations

import asyncio
import functools
import socket
from ssl import SSLContext

from aiohttp import (
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ClientTimeout,
    ServerDisconnectedError,
    StreamReader,
    TCPConnector,
    hdrs,
)
from aiohttp.client_proto import ResponseHandler
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

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self.answers += 1
        if self.answers <= MAX_ANSWERS:
            super().feed_data(data, size)
        elif self.transport is not None and not self.transport.is_closing():
            self.transport.abort()
            self.set_exception(TooManyAnswers(f"more than {MAX_ANSWERS} answers to one request"))


class Request(ClientRequest):
    """A request that remembers its connection; asks for no compression."""

    DEFAULT_HEADERS = {  # noqa: RUF012 - declared so by aiohttp
        hdrs.ACCEPT: "*/*",
        hdrs.ACCEPT_ENCODING: "identity",
        hdrs.USER_AGENT: "event-gateway",
    }
    handler: Handler | None = None


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
        self._factory = functools.partial(_handler, self._loop)

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """A connection ready to send on: never one whose peer spoke unasked, since that would pass as our answer."""
        while True:
            connection = await super().connect(req, traces, timeout)
            handler = connection.protocol
            if not isinstance(handler, Handler) or not isinstance(req, Request):
                raise TypeError("aiohttp made a connection or request of a foreign class")
            if handler.uses == 0 or not handler.should_close:
                break
            connection.close()
        handler.begin()
        req.handler = handler
        return connection


def _handler(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return Handler(loop)


def _checked_socket(allowed: Allowed, info: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = info
    check_address(str(address[0]), allowed)
    return socket.socket(family, kind, protocol)


async def repeat_closed(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
    """Sends once more, at once, what met a kept-alive connection that the peer closed without a byte of answer.

    Only with an idempotency key (RFC 9110, 9.2.2); aiohttp itself repeats the methods that are idempotent.
    """
    try:
        return await send(request)
    except (ServerDisconnectedError, ClientOSError):
        if not _is_stale(request) or request.method not in ("POST", "PATCH"):
            raise
    await request.close()
    return await send(request)


def _is_stale(request: ClientRequest) -> bool:
    handler = request.handler if isinstance(request, Request) else None
    reused = handler is not None and handler.uses > 1 and not handler.answered
    return reused and "idempotency-key" in request.headers

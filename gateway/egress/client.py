"""The guarded HTTP client: how everything in a dispatcher calls out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache, lru_cache
from types import TracebackType
from typing import Self

from aiohttp import ClientError, ClientRequest, ClientTimeout
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from gateway.egress.addresses import EVERYWHERE, parse_allow
from gateway.egress.connector import Connector
from gateway.egress.exchange import ClosedMeanwhile, Way, exchange, head_of
from gateway.egress.failures import failure, unconnected_in_time
from gateway.egress.resolver import Lookup, SystemLookup
from gateway.egress.rules import check_framing, check_url
from gateway.errors import HttpError
from gateway.executor import HttpResponse

CONNECT_TIMEOUT_S = 5.0
EXACT = float("inf")
"""aiohttp rounds longer timeouts up to a whole second from this threshold on; never, since deadlines are exact."""

WAYS = 1024
"""Methods and URLs that are remembered; with more, all are forgotten."""

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be sent twice (RFC 9110, 9.2.2); others only with an idempotency key."""


class EgressClient:
    """Implements `HttpClient`: reaches public and allowed addresses only, follows no redirect, inflates nothing,
    keeps no cookie, and is bounded in time and size.

    `allow` is the `[egress] allow` list: CIDRs, addresses, host names (a name opens whatever it resolves to).
    ValueError if an entry is none of these. Start it and close it in the event loop, or use it with `async with`.
    """

    def __init__(
        self, allow: Sequence[str] = (), *, lookup: Lookup | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allowed = parse_allow(allow)
        self._system_lookup = SystemLookup()
        self._lookup: Lookup = lookup or self._system_lookup
        self._tls = tls or _verifying()
        self._connectors: tuple[Connector, Connector] | None = None
        self._ways: dict[tuple[str, str, ssl.SSLContext | None], Way] = {}

    async def start(self) -> None:
        """Opens the connection pools; the client belongs to this event loop from here on."""
        guarded, named = (Connector(self._lookup, allowed, self._tls) for allowed in (self._allowed, EVERYWHERE))
        self._connectors = guarded, named

    async def aclose(self) -> None:
        """Closes every connection."""
        self._ways.clear()
        for connector in self._connectors or ():
            await connector.close()
        self._system_lookup.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float = 30.0,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        max_body: int = 65536,
        tls: ssl.SSLContext | None = None,
    ) -> HttpResponse:
        """One request and at most `max_body` bytes of its answer, all within `timeout_s` seconds.

        Raises EgressDenied, HttpError, or ValueError if the URL or a header may not be sent at all.
        """
        way = self._ways.get((method, url, tls)) or self._new_way(method, url, tls)
        names = check_framing(headers)
        head = head_of(way, headers, names, len(body))
        if timeout_s <= 0:
            raise HttpError("timeout", "no time was left to send the request")
        timeout, limit = _connect_timeout(connect_timeout_s), asyncio.timeout(timeout_s)
        try:
            async with limit:
                try:
                    return await exchange(way, head, body, timeout=timeout, max_body=max_body)
                except ClosedMeanwhile:
                    if way.request.method not in IDEMPOTENT and "idempotency-key" not in names:
                        raise
                # any other kept one may be closed as well
                return await exchange(way, head, body, timeout=timeout, max_body=max_body, fresh=True)
        except ClosedMeanwhile as exc:
            raise failure(exc.__cause__ or exc, timeout_s) from exc
        except (ClientError, HttpProcessingError, OSError) as exc:
            if isinstance(exc, TimeoutError) and not limit.expired():
                raise unconnected_in_time(way.request.url, connect_timeout_s) from exc
            raise failure(exc, timeout_s) from exc

    def _new_way(self, method: str, url: str, tls: ssl.SSLContext | None) -> Way:
        target = check_url(url)
        if len(self._ways) >= WAYS:
            self._ways.clear()
        connector = self._connector_for(target)
        request = ClientRequest(method, target, loop=asyncio.get_running_loop(), ssl=tls or True)
        way = self._ways[method, url, tls] = Way.of(connector, request)
        return way

    def _connector_for(self, target: URL) -> Connector:
        if self._connectors is None:
            raise RuntimeError("the client is not started: await start() first")
        named = (target.raw_host or "").removesuffix(".") in self._allowed.names
        return self._connectors[named]


@lru_cache(maxsize=256)
def _connect_timeout(timeout_s: float) -> ClientTimeout:
    return ClientTimeout(total=None, connect=2 * timeout_s, sock_connect=timeout_s, ceil_threshold=EXACT)


@cache
def _verifying() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context

"""The guarded HTTP client: how everything in a dispatcher calls out."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from io import BytesIO
from types import TracebackType
from typing import Self

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    StreamReader,
)
from yarl import URL

from gateway.egress.addresses import EVERYWHERE, Allowed, parse_allow
from gateway.egress.connector import Connector, Request, repeat_closed
from gateway.egress.failures import failure
from gateway.egress.resolver import Lookup, SystemLookup
from gateway.egress.rules import check_framing, check_url
from gateway.errors import HttpError
from gateway.executor import HttpResponse

CONNECT_TIMEOUT_S = 5.0
MAX_RESPONSE_HEADERS = 100
MAX_RESPONSE_HEADER = 8190
READ_BYTES = 65536
LARGE_BODY = 1 << 20
EXACT = float("inf")
"""aiohttp rounds longer timeouts up to a whole second from this threshold on; never, since deadlines are exact."""


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
        self._guarded: ClientSession | None = None
        self._named: ClientSession | None = None

    async def start(self) -> None:
        """Opens the connection pools; the client belongs to this event loop from here on."""
        self._guarded = self._session(self._allowed)
        self._named = self._session(EVERYWHERE)

    async def aclose(self) -> None:
        """Closes every connection."""
        for session in (self._guarded, self._named):
            if session is not None:
                await session.close()
        self._system_lookup.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _session(self, allowed: Allowed) -> ClientSession:
        return ClientSession(
            connector=Connector(self._lookup, allowed, self._tls),
            request_class=Request,
            middlewares=(repeat_closed,),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_BYTES,
            max_headers=MAX_RESPONSE_HEADERS,
            max_line_size=MAX_RESPONSE_HEADER,
            max_field_size=MAX_RESPONSE_HEADER,
        )

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
        target = check_url(url)
        check_framing(headers)
        session = self._session_for(target)
        if timeout_s <= 0:
            raise HttpError("timeout", "no time was left to send the request")
        timeout = ClientTimeout(
            total=timeout_s, connect=2 * connect_timeout_s, sock_connect=connect_timeout_s, ceil_threshold=EXACT
        )
        data = (body if len(body) < LARGE_BODY else BytesIO(body)) or None
        try:
            response = await session.request(
                method, target, headers=headers, data=data, timeout=timeout, allow_redirects=False, ssl=tls or True
            )
            try:
                return await _read(response, max_body)
            finally:
                response.close()
        except (ClientError, OSError) as exc:
            raise failure(exc, timeout_s) from exc

    def _session_for(self, target: URL) -> ClientSession:
        named = (target.raw_host or "").removesuffix(".") in self._allowed.names
        session = self._named if named else self._guarded
        if session is None:
            raise RuntimeError("the client is not started: await start() first")
        return session


async def _read(response: ClientResponse, max_body: int) -> HttpResponse:
    if response.status < 200:
        raise HttpError("protocol", f"status {response.status} is no answer")
    body, truncated = await _capped(response.content, max_body)
    headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.raw_headers)
    return HttpResponse(response.status, headers, body, truncated)


async def _capped(content: StreamReader, limit: int) -> tuple[bytes, bool]:
    """The body's first `limit` bytes, and whether there were more; the caller closes the connection on them."""
    chunks: list[bytes] = []
    size = 0
    while not content.at_eof():
        chunk = await content.read(limit + 1 - size)
        size += len(chunk)
        if size > limit:
            chunks.append(chunk[:-1])
            return b"".join(chunks), True
        chunks.append(chunk)
    return b"".join(chunks), False


def _verifying() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context

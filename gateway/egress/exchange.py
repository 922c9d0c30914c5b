"""One request and its answer on a connection of the pool.

aiohttp connects, keeps connections and parses; its session is left out, since what that does for one request takes
longer than all that a job costs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import ClientOSError, ClientRequest, ClientTimeout, ServerDisconnectedError, StreamReader
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http import RawResponseMessage

from gateway.egress.connector import Connector, Handler
from gateway.errors import HttpError
from gateway.executor import HttpResponse

MAX_RESPONSE_HEADERS = 100
MAX_RESPONSE_HEADER = 8190
READ_BYTES = 65536
JOINED_BODY = 65536
"""A body up to this size leaves in one piece with its head."""

_ALWAYS = {"accept": "*/*", "user-agent": "event-gateway"}
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class ClosedMeanwhile(Exception):
    """A kept connection was closed by the peer before a byte of answer came: `__cause__` is how that showed."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where requests with one method and URL go: what aiohttp connects by, and how each of their heads begins."""

    connector: Connector
    request: ClientRequest
    key: ConnectionKey
    start: str

    @classmethod
    def of(cls, connector: Connector, request: ClientRequest) -> Way:
        """The way of a request that is never sent itself."""
        url = request.url
        start = f"{request.method} {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
        return cls(connector, request, request.connection_key, start + "Accept-Encoding: identity\r\n")


def head_of(way: Way, headers: Sequence[tuple[str, str]], names: frozenset[str], length: int) -> bytes:
    """The head of a request; `names` are those of its headers in lower case. ValueError if a value would end a line."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if lines.count("\r") != len(headers) or lines.count("\n") != len(headers) or "\0" in lines:
        raise ValueError("the value of a header holds a line break or a NUL")
    for name, value in _ALWAYS.items():
        if name not in names:
            lines += f"{name}: {value}\r\n"
    if length and "content-type" not in names:
        lines += "content-type: application/octet-stream\r\n"
    if length or way.request.method not in _WITHOUT_BODY:
        lines += f"content-length: {length}\r\n"
    return f"{way.start}{lines}\r\n".encode()


async def exchange(
    way: Way, head: bytes, body: bytes, *, timeout: ClientTimeout, max_body: int, fresh: bool = False
) -> HttpResponse:
    """Sends a request and reads its answer; raises what aiohttp does, ClosedMeanwhile, or HttpError.

    The connection, a new one if `fresh`, is kept if the answer was read whole and nothing speaks against it, else it
    is closed.
    """
    connection, handler = await way.connector.reach(way.request, way.key, timeout, fresh=fresh)
    transport = handler.transport
    whole = False
    try:
        if transport is None:
            raise ServerDisconnectedError
        handler.set_response_params(
            skip_payload=way.request.method == "HEAD",
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=READ_BYTES,
            max_line_size=MAX_RESPONSE_HEADER,
            max_field_size=MAX_RESPONSE_HEADER,
            max_headers=MAX_RESPONSE_HEADERS,
        )
        # the transport keeps what the peer does not read yet: an early answer to a long body is read nonetheless
        if len(body) <= JOINED_BODY:
            way.connector.send(transport, head + body)
        else:
            transport.writelines((head, body))
        message, content = await _final_answer(handler)
        if content.is_eof() and content.total_bytes <= max_body:  # as nearly always: it came with the head
            captured, truncated = content.read_nowait(-1), False
        else:
            captured, truncated = await _capped(content, max_body)
        whole = not truncated and transport.get_write_buffer_size() == 0
    except (ServerDisconnectedError, ClientOSError) as exc:
        if handler.uses > 1 and not handler.answered:
            raise ClosedMeanwhile from exc
        raise
    finally:
        if whole:
            connection.release()
        else:
            connection.close()
    found = tuple([(_lower(name), value.decode("latin-1")) for name, value in message.raw_headers])
    return HttpResponse(message.code, found, captured, truncated)


@lru_cache(maxsize=1024)
def _lower(name: bytes) -> str:
    return name.decode("latin-1").lower()


async def _final_answer(handler: Handler) -> tuple[RawResponseMessage, StreamReader]:
    while True:
        message, content = await handler.read()
        if message.code == 101 or not 100 <= message.code <= 999:
            raise HttpError("protocol", f"status {message.code:03} is no answer")
        if message.code >= 200:
            return message, content


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

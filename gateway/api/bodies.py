"""Reads a request's body, within its limits of size and time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec
from starlette.types import Receive, Send

from gateway.api.headers import Headers
from gateway.api.problems import Refused
from gateway.api.reply import Reply, send_reply

JSON_TYPES = ("application/json",)
NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
MIN_BYTES_PER_S = 16384
"""A large body may take longer than its timeout as long as it comes at this rate on average."""

LINGER_S = 1.0

SMALL_BYTES = 64 * 1024
"""Of each body: taken in always, so that large bodies which are held back keep no small one out."""

RETRY_AFTER_S = 5


class ClientGone(Exception):
    """The client closed the connection before its request was whole; nobody waits for an answer."""


class BodyLimits(msgspec.Struct, frozen=True):
    """How many bytes a body may have, and how many seconds it may stall; `setting` is what says how many bytes."""

    most_bytes: int
    timeout_s: float
    setting: str = "max_body of [gateway]"


class Arriving:
    """What has arrived of bodies that are not whole yet: in memory, for as long as their clients take."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.bytes = 0

    def grow(self, before: int, size: int) -> None:
        """A body that had so many bytes `before` has `size` now; raises Refused (503) if that is too much in all.

        One that arrives alone is never too much.
        """
        more = counted(size) - counted(before)
        if more and self.bytes + more > self._most_bytes and self.bytes > counted(before):
            raise Refused(
                503,
                f"bodies of {self._most_bytes} bytes in all are arriving here; try again later",
                headers=((b"retry-after", b"%d" % RETRY_AFTER_S),),
                close=True,
            )
        self.bytes += more

    def end(self, size: int) -> None:
        """A body of so many bytes is whole, or given up."""
        self.bytes -= counted(size)


def counted(size: int) -> int:
    """How many bytes of a body count as arriving."""
    return max(0, size - SMALL_BYTES)


async def read_body(
    receive: Receive, headers: Headers, limits: BodyLimits, *, arriving: Arriving, whole: bool = False
) -> bytes:
    """The whole body. Raises Refused (408, 413, 415, 503) without reading more than the limit, or ClientGone.

    One that is there as a `whole` already needs no clock.
    """
    declared = headers.one(b"content-length") or b""
    check_body(headers, limits, int(declared) if declared.isdigit() else 0)
    if whole:
        return await _read_chunks(receive, limits, arriving, None)
    try:
        async with asyncio.timeout(limits.timeout_s) as deadline:
            return await _read_chunks(receive, limits, arriving, deadline)
    except TimeoutError as exc:
        raise Refused(408, "the body stopped arriving, or arrives too slowly", close=True) from exc


async def _read_chunks(
    receive: Receive, limits: BodyLimits, arriving: Arriving, deadline: asyncio.Timeout | None
) -> bytes:
    first_deadline = deadline.when() or 0.0 if deadline else 0.0
    chunks: list[bytes] = []
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk = message.get("body", b"")
            check_size(size + len(chunk), limits)
            if message.get("more_body", False):
                arriving.grow(size, size + len(chunk))
                size += len(chunk)
                chunks.append(chunk)
            else:
                return b"".join((*chunks, chunk)) if chunks else bytes(chunk)
            if deadline:
                deadline.reschedule(first_deadline + size / MIN_BYTES_PER_S)
    finally:
        arriving.end(size)


def check_encoding(headers: Headers) -> None:
    """Raises Refused (415) for a compressed body: nothing is inflated here."""
    for value in headers.all(b"content-encoding"):
        if value.strip().lower() not in (b"", b"identity"):
            raise Refused(415, "the body is compressed; send it as it is, without Content-Encoding", close=True)


def check_body(headers: Headers, limits: BodyLimits, size: int) -> None:
    """Raises Refused for a body that is compressed (415), or has more bytes than it may (413)."""
    if b"content-encoding" in headers:
        check_encoding(headers)
    check_size(size, limits)


def check_size(size: int, limits: BodyLimits) -> None:
    """Raises Refused (413) for more bytes than there may be."""
    if size > limits.most_bytes:
        raise Refused(413, f"the body is larger than {limits.most_bytes} bytes, {limits.setting}", close=True)


def media_type(headers: Headers) -> str:
    """The Content-Type without its parameters, in lower case; empty if there is none."""
    value = headers.one(b"content-type") or b""
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def check_json(headers: Headers, *, also: Sequence[str] = ()) -> None:
    """Raises Refused (415) if the body says that it is not JSON; one that says nothing may pass."""
    kind = media_type(headers)
    if kind and kind not in JSON_TYPES and kind not in also and not kind.endswith("+json"):
        wanted = " or ".join((*JSON_TYPES, *also[:1]))
        raise Refused(
            415, f"the Content-Type is {kind[:64]!r}; send {wanted} (curl: -H 'content-type: {wanted}')", close=True
        )


async def close_slowly(reply: Reply, receive: Receive, send: Send) -> None:
    """Answers, and reads on a little before the connection is closed.

    Closing at once with unread bytes makes the kernel reset the connection, and a client that is still sending
    would never see the answer.
    """
    await send_reply(reply, send, more=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})

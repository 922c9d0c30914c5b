"""An answer on its way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from starlette.types import Receive, Scope, Send

JSON = b"application/json"
NO_CONTENT = 204


class Reply(msgspec.Struct, frozen=True):
    """A whole answer; header names in lower case. `close` ends the connection with it."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close: bool = False


DONE = Reply(NO_CONTENT, content_type=b"")
"""What was asked is done, and there is nothing to say of it."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without an end of its own: `run` sends all of it, and returns when it is over or the client is gone."""

    run: Callable[[Scope, Receive, Send], Awaitable[None]]
    status: int = 200


def json_reply(value: Any, status: int = 200) -> Reply:
    """A JSON answer; `value` is what orjson encodes, fragments included."""
    return Reply(status, orjson.dumps(value))


async def send_reply(reply: Reply, send: Send, *, more: bool = False) -> None:
    """Sends all of it; with `more` the answer is left open, to be ended by one more empty body message."""
    headers = list(reply.headers)
    if reply.status != NO_CONTENT:  # behind which RFC 9110 §8.6 allows no length, and strict clients lose their place
        headers.append((b"content-length", str(len(reply.body)).encode()))
    if reply.content_type and reply.status != NO_CONTENT:
        headers.append((b"content-type", reply.content_type))
    if reply.close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = b"" if reply.status == NO_CONTENT else reply.body
    await send({"type": "http.response.body", "body": body, "more_body": more})

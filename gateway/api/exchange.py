"""One request and its answer, as uvicorn runs them, made without what only a task of its own needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ClassVar

from uvicorn._types import HTTPScope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gateway.api.outlet import Outlet


class Exchange(RequestResponseCycle):
    """As uvicorn's cycle. What is the same for every request at first is the class's, since most are answered at once,
    and then making one would cost as much as answering it."""

    logger = logging.getLogger("uvicorn.error")
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    body: bytes | bytearray = b""  # type: ignore[assignment]
    """What has arrived of it, and was not read yet."""
    _told = False
    _written: ClassVar[tuple[list[tuple[bytes, bytes]], bytes]] = ([], b"")
    """The headers that every answer had last, and how they are written."""
    _event: asyncio.Event | None = None

    def __init__(  # all of it by position, since naming the arguments of a class costs as much as making the object
        self,
        scope: HTTPScope,
        outlet: Outlet,
        flow: FlowControl,
        expects: bool,
        keep_alive: bool,
        default_headers: list[tuple[bytes, bytes]],
        on_response: Callable[[], None],
    ) -> None:
        self.scope = scope
        self.transport = outlet  # type: ignore[assignment]
        self.flow = flow
        self.waiting_for_100_continue = expects
        self.keep_alive = keep_alive
        self.default_headers = default_headers
        self.on_response = on_response

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]
        """Set while there is something that `receive` would tell."""
        if self._event is None:
            self._event = asyncio.Event()
            if self._told:
                self._event.set()
        return self._event

    def tell(self) -> None:
        """Wakes who waits in `receive`, and whoever comes to wait there next."""
        self._told = True
        if self._event is not None:
            self._event.set()

    def arrived(self, chunk: bytes) -> int:
        """Takes in more of the body; how many bytes of it wait to be read."""
        if not self.body:
            self.body = chunk
        else:
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += chunk
        self.tell()
        return len(self.body)

    def disconnect(self) -> None:
        """Tells whoever answers that nobody waits any more."""
        self.disconnected = True
        self.tell()

    def answer(self, status: int, content_type: bytes, body: bytes) -> bool:
        """A whole answer in one write; False if it has to be sent uvicorn's way."""
        if self.response_started or self.flow.write_paused or self.scope["method"] == "HEAD":
            return False
        if self.disconnected:
            return True
        self.response_started = self.response_complete = True
        self.transport.write(
            b"%bcontent-length: %d\r\ncontent-type: %b\r\n%b%b%b"
            % (
                STATUS_LINE[status],
                len(body),
                content_type,
                self._common(),
                b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n",
                body,
            )
        )
        self._told = True
        if self._event is not None:
            self._event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
        return True

    def _common(self) -> bytes:
        """The headers of every answer, written anew where they are another list, which they are once a second."""
        headers, text = Exchange._written
        if headers is not self.default_headers:
            text = b"".join([b"%b: %b\r\n" % header for header in self.default_headers])
            Exchange._written = (self.default_headers, text)
        return text

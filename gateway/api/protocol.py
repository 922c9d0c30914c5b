"""uvicorn's HTTP protocol with bounds on a request's head, and its own refusals as problems.

uvicorn keeps a head that never ends in memory for ever, and waits for it for ever. What comes whole and is too
large is refused by the guards, with the limits of the configuration.
"""

from __future__ import annotations

import asyncio
from functools import partial

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gateway.api.problems import PROBLEM, problem
from gateway.api.wire import WireProtocol

MAX_HEAD_BYTES = 2 * 1024 * 1024
"""Above the largest limit that can be configured for headers."""

HEAD_TIMEOUT_S = 10.0
MAX_PIPELINED = 32
"""Requests that a connection may send ahead of their answers; uvicorn would queue any number."""

ON_DRAIN = "on_drain"
"""What an application's lifespan state may hold: called when the server begins to stop, before it waits for requests
under way."""


ABORT = "gateway.abort"
"""In a request's scope: drops its connection at once, with what is still to be sent."""


ANSWER = "gateway.answer"
"""In a request's scope: called with a status, a content type and a body, sends the whole answer in one write, where
uvicorn makes two, which cost more than all else that is done to answer. False if it has to be sent uvicorn's way."""


class TooManyPipelined(Exception):
    """A connection sent too many requests ahead of their answers."""


class GuardedProtocol(WireProtocol):
    """One connection; ends it when a head is endless, too slow or not HTTP."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if (fault := self.parse(data)) is not None:
            self._refuse(*fault)
            return
        # a head that came whole needs no timer, as most do
        if self._in_head or self.cycle is None or self.cycle.response_complete:
            if self._head_timer is None:
                self._await_head()
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, "the headers do not end")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # what one's own close() cannot do: end a connection whose client takes nothing more
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()
        self.scope[ANSWER] = partial(_answer, self.cycle)  # type: ignore[literal-required]
        if len(self.pipeline) > MAX_PIPELINED:
            # closing is the only answer in order: those before it are still being made; the error ends the parsing
            self.transport.close()
            raise TooManyPipelined

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()

    def shutdown(self) -> None:
        super().shutdown()
        if (tell := self.app_state.get(ON_DRAIN)) is not None:
            tell()

    def _await_head(self) -> None:
        self._head_bytes = 0
        if not self.transport.is_closing():
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._time_out)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out(self) -> None:
        self._head_timer = None
        if self._head_bytes:
            self._refuse(408, f"the headers did not arrive within {HEAD_TIMEOUT_S:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        body = orjson.dumps(problem(status, detail))
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (PROBLEM, len(body))
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def _answer(cycle: RequestResponseCycle, status: int, content_type: bytes, body: bytes) -> bool:
    if cycle.response_started or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    if cycle.disconnected:
        return True
    parts = [STATUS_LINE[status], b"content-length: %d\r\ncontent-type: %b\r\n" % (len(body), content_type)]
    parts += [b"%b: %b\r\n" % header for header in cycle.default_headers]
    parts += [b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", body]
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join(parts))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True

"""uvicorn's HTTP protocol with bounds on a request's head, and its own refusals as problems.

uvicorn keeps a head that never ends in memory for ever, and waits for it for ever. What comes whole and is too
large is refused by the guards, with the limits of the configuration.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import orjson
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, HTTPScope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.api.exchange import Exchange
from gateway.api.outlet import Discard, Outlet, Unread
from gateway.api.problems import PROBLEM, problem
from gateway.api.scope import ABORT, ANSWER, EOF, ON_DRAIN
from gateway.api.wire import Unfit, WireProtocol

MAX_HEAD_BYTES = 2 * 1024 * 1024
"""Above the largest limit that can be configured for headers."""

HEAD_TIMEOUT_S = 10.0
MAX_PIPELINED = 32
"""Requests that a connection may send ahead of their answers; uvicorn would queue any number."""


class Take(Protocol):
    """What an application has that answers some requests without a task: takes one whose body is there, or not (False).

    `go_on` runs an application for it after all.
    """

    def __call__(
        self, scope: HTTPScope, body: bytes, *, receive: ASGIReceiveCallable, go_on: Callable[[ASGI3Application], None]
    ) -> bool: ...


class GuardedProtocol(WireProtocol):
    """One connection; ends it when a head is endless, too slow or not HTTP, behind the answers under way."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _outlet: Outlet
    _running: Exchange | None = None
    _refusal: bytes | None = None
    """The last that is sent on this connection; empty if it is only to be closed."""
    _discard: Discard | None = None
    _unread: Unread | None = None
    _resting_since_s = 0.0

    _eof = False
    _parsing = False
    _due: Exchange | None = None
    """Whose head was among what is being parsed, so that its body may be too."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._take: Take | None = getattr(self.app, "take", None)
        self._outlet = Outlet(transport, self._close)
        self._ahead: deque[Exchange] = deque()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_discard()
        self._end_unread()
        self._unset_keepalive_if_required()
        self._drop_pipeline()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnect()
        super().connection_lost(exc)
        self._outlet.close = self.transport.close  # no circle is left for the collector

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None or self._outlet.ended:
            if self._discard is not None:
                self._discard.take(len(data))
            else:
                self._drop(len(data))
        else:
            self._parsing = True
            fault = self.parse(data)
            self._parsing = False
            if self._due is not None:
                self._begin_due(in_turn=fault is None)
            if fault is not None:
                self._refuse(*fault)
            else:
                self._look_on(len(data))

    def _look_on(self, size: int) -> None:
        """At what state the connection is left in by so many bytes."""
        if self._discard is not None and not (self._in_body and self.cycle.response_complete):
            self._end_discard()
        # a head that came whole needs no timer, as most do
        if self._in_head:
            if self._head_timer is None:
                self._await_head()
            self._head_bytes += size
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, "the headers do not end")
        elif not self._in_body and self.cycle is not None and self.cycle.response_complete:
            self._rest()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open, its client's way closed, for the answers that are due."""
        self._eof = True
        self._end_head()
        running = self._running
        if running is None or running.response_complete or self._outlet.ended:
            return False
        if self._in_body:  # a request that can never be whole
            if running is self.cycle:
                return False
            if self._ahead and self._ahead[-1] is self.cycle:  # the loop may say so again, each time it reads on
                self._ahead.pop()
        running.scope[EOF] = True  # type: ignore[literal-required]
        running.tell()  # wakes who waits for the client's end
        return True

    def on_head(self, version: str) -> None:
        self._end_head()
        before = self.cycle
        self.cycle = cycle = Exchange(
            self.scope,
            self._outlet,
            self.flow,
            self.expect_100_continue,
            version != "1.0" and self.parser.should_keep_alive(),
            self.server_state.default_headers,
            self.on_response_complete,
        )
        self.scope[ANSWER] = cycle.answer  # type: ignore[literal-required]
        if before is None or before.response_complete:
            self._begin(cycle)
            return
        self.flow.pause_reading()
        self._ahead.append(cycle)
        if len(self._ahead) > MAX_PIPELINED:
            raise Unfit((429, f"more than {MAX_PIPELINED} requests were sent ahead of their answers"))

    def on_surplus(self, size: int) -> None:
        if self._discard is not None:
            self._discard.take(size)

    def _begin(self, cycle: Exchange) -> None:
        self._running = cycle
        if self._eof:
            cycle.scope[EOF] = True  # type: ignore[literal-required]
        if self._parsing:
            self._due = cycle
        else:
            self._run(cycle, self.app)

    def _begin_due(self, *, in_turn: bool) -> None:
        """Has the application take a request that came whole, if it does so without a task; else runs it in one."""
        cycle, self._due = self._due, None
        assert cycle is not None
        if (
            not in_turn
            or cycle.more_body
            or self._take is None
            or not self._take(cycle.scope, bytes(cycle.body), receive=cycle.receive, go_on=partial(self._run, cycle))
        ):
            self._run(cycle, self.app)

    def _run(self, cycle: Exchange, app: ASGI3Application) -> None:
        cycle.scope["state"] = self.app_state.copy()
        # what one's own close() cannot do: end a connection whose client takes nothing more
        cycle.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]
        self._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if self._running is not None:  # without circles, so that nothing is left for the collector
            self._running.scope.pop(ANSWER, None)  # type: ignore[misc]
            self._running.on_response = _nothing
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self._ahead:
            self._begin(self._ahead.popleft())
        else:
            self._rest()
        if self._outlet.ended:
            self._unset_keepalive_if_required()
        elif self._ahead:
            self.flow.pause_reading()
        elif self._running is None or self._running.response_complete:
            if self._refusal is not None:
                self._end(self._refusal)
            elif self._eof:
                self._shut()
            elif self._in_body and self._discard is None:
                self._begin_discard()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = Unread(self.transport, self.loop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._end_unread()

    def _rest(self) -> None:
        """All that was asked is answered: from now on the connection may stay so for its time. One timer looks once in
        a while, where one for each answer would cost as much as writing it."""
        self._resting_since_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_later(self.timeout_keep_alive)

    def _look_later(self, after_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(after_s, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._in_head or self._in_body or not self.cycle.response_complete:
            return  # the end of the answer has it look again
        left_s = self._resting_since_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._look_later(left_s)
        else:
            self._shut()

    def shutdown(self) -> None:
        super().shutdown()
        if self._outlet.ended:
            self.transport.close()
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
        if self.flow.read_paused:  # it is we who keep it waiting
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._time_out)
            return
        if self._in_head:
            self._refuse(408, f"the headers did not arrive within {HEAD_TIMEOUT_S:g} s")
        if self._outlet.ended or not self._in_head:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Sends a problem and closes, once all that was asked before it is answered."""
        self._end_head()
        if self.transport.is_closing():
            return
        self._refusal, self._head_bytes = _render(status, detail), 0
        if self._in_body:
            self._give_up(self.cycle)
        if self._running is None or self._running.response_complete or self._running.disconnected:
            self._end(self._refusal)

    def _drop(self, size: int) -> None:
        """What comes behind a fault, while earlier requests are being answered."""
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self.transport.close()

    def _give_up(self, cycle: Exchange) -> None:
        """The refusal is the answer of a request whose body is at fault, unless that has one."""
        if self._ahead and self._ahead[-1] is cycle:
            self._ahead.pop()
        elif cycle.response_started:
            self._refusal = b""
        else:
            cycle.disconnect()

    def _close(self) -> None:
        """At the end of an answer: at once if nothing more can be on its way here."""
        if self._in_head or self._in_body:
            self._end(b"")
        else:
            self._shut()

    def _shut(self) -> None:
        """Closes the connection once all is sent, which takes a client that reads."""
        if self._unread is None and self.transport.get_write_buffer_size():
            self._unread = Unread(self.transport, self.loop)
        self.transport.close()

    def _end(self, last: bytes) -> None:
        if self._outlet.ended or self.transport.is_closing():
            return
        self._outlet.ended = True
        self._drop_pipeline()
        if last:
            self.transport.write(last)
        if self._eof:  # nothing is on its way here
            self._shut()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._begin_discard()

    def _begin_discard(self) -> None:
        self._unset_keepalive_if_required()
        self._end_discard()
        self._discard = Discard(self.transport, self.loop)
        self.flow.resume_reading()

    def _end_discard(self) -> None:
        if self._discard is not None:
            self._discard.end()
            self._discard = None

    def _end_unread(self) -> None:
        if self._unread is not None:
            self._unread.end()
            self._unread = None

    def _drop_pipeline(self) -> None:
        for cycle in self._ahead:
            cycle.disconnect()
        self._ahead.clear()


def _nothing() -> None:
    """What is called at the end of an answer that has ended."""


def _render(status: int, detail: str) -> bytes:
    body = orjson.dumps(problem(status, detail))
    head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (PROBLEM, len(body))
    return STATUS_LINE[status] + head + body

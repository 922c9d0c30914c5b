"""Requests as they come off the wire: uvicorn's parsing, as strict as RFC 9112 asks, and deaf to upgrades."""

from __future__ import annotations

from http import HTTPStatus

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.api.bodies import WHOLE

_FRAMING = (b"content-length", b"transfer-encoding")

MAX_SILENT_BYTES = 64 * 1024
"""Bytes amid a body that are none of it: trailers, and what else may stand around chunks."""

Fault = tuple[int, str]
"""A status, and what is wrong."""

NOT_HTTP: Fault = (HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1 as RFC 9112 has it")
SILENT: Fault = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the trailers do not end")


class Unfit(Exception):
    """What a request's head says cannot be served; ends the parsing."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault[1])
        self.fault = fault


class WireProtocol(HttpToolsProtocol):
    """Turns bytes into requests; `parse` says what is wrong with them."""

    _in_head = False
    _in_body = False
    _resumed = False
    _moved = False
    _silent_bytes = 0
    _hosts = 0
    _coding: bytes | None = None

    def parse(self, data: bytes) -> Fault | None:
        """Feeds the parser; a fault is one of the request that it is amid, and nothing can be parsed after it."""
        self._moved = False
        rest: bytes | None = data
        try:
            while rest is not None:
                rest = self._feed(rest)
        except httptools.HttpParserError as error:
            return error.__context__.fault if isinstance(error.__context__, Unfit) else NOT_HTTP
        if not self._in_body or self._moved:
            self._silent_bytes = 0
            return None
        self._silent_bytes += len(data)
        return SILENT if self._silent_bytes > MAX_SILENT_BYTES else None

    def _feed(self, data: bytes) -> bytes | None:
        """What is left to be fed to a parser that had to be replaced."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # the parser takes all after the head for another protocol; RFC 9110 §7.8 lets a server stay with its own
            return self._resume() + data[upgrade.args[0] :]
        return None

    def _resume(self) -> bytes:
        """Another parser in place of this one: returns the head that brings it to where this one stopped."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._resumed = True
        framing = [b"%b: %b\r\n" % each for each in self.headers if each[0] in _FRAMING]
        return b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing)

    def on_message_begin(self) -> None:
        if self._resumed:
            return
        super().on_message_begin()
        self._in_head = True
        self._hosts = 0
        self._coding = None

    def on_url(self, url: bytes) -> None:
        if not self._resumed:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer, which RFC 9110 §6.5.1 lets a recipient discard, or a head's second reading
            return
        name, value = name.lower(), value.rstrip(b" \t")  # which the parser leaves there, against RFC 9112 §5.1
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        elif name == b"transfer-encoding":
            self._coding = value if self._coding is None else b"%b, %b" % (self._coding, value)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._resumed:
            self._resumed = False
            return
        version = self.parser.get_http_version()
        if (fault := self._fault(version)) is not None:
            raise Unfit(fault)
        if version == "1.0":  # such a client knows of no answer before the answer
            self.expect_100_continue = False
        super().on_headers_complete()
        self._in_head = False
        self._in_body = self._moved = True

    def on_body(self, body: bytes) -> None:
        self._moved = True
        cycle = self.cycle
        if cycle.response_complete:
            self.on_surplus(len(body))
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_surplus(self, size: int) -> None:
        """So many bytes of a body came behind the answer."""

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def _fault(self, version: str) -> Fault | None:
        if version not in ("1.1", "1.0"):
            return HTTPStatus.BAD_REQUEST, "send HTTP/1.1, and its version behind the path"
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            return HTTPStatus.BAD_REQUEST, f"the header Host is there {self._hosts} times; send it once"
        if self._coding is not None and self._coding.strip().lower() != b"chunked":
            return HTTPStatus.NOT_IMPLEMENTED, "the Transfer-Encoding is not chunked; no other one is read"
        return None

"""Requests as they come off the wire: uvicorn's parsing, as strict as RFC 9112 asks, and deaf to upgrades."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn._types import HTTPScope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.api.exchange import Exchange
from gateway.api.scope import HEAD_MOST, NAMED, WHOLE

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
    _head_most: int | None = None
    """Bytes that a head which is complete now can have at most, if it came in one piece."""
    cycle: Exchange

    def parse(self, data: bytes) -> Fault | None:
        """Feeds the parser; a fault is one of the request that it is amid, and nothing can be parsed after it."""
        self._moved = False
        self._head_most = None if self._in_head else len(data)
        upgrade = None
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as other:
                upgrade = other
            if upgrade is not None:  # out here, so that it is not the context of what fails from now on
                self._feed_on(data, upgrade)
        except httptools.HttpParserError as error:
            return error.__context__.fault if isinstance(error.__context__, Unfit) else NOT_HTTP
        if not self._in_body or self._moved:
            self._silent_bytes = 0
            return None
        self._silent_bytes += len(data)
        return SILENT if self._silent_bytes > MAX_SILENT_BYTES else None

    def _feed_on(self, data: bytes, upgrade: httptools.HttpParserUpgrade | None) -> None:
        """The parser takes all after the head for another protocol; RFC 9110 §7.8 lets a server stay with its own."""
        while upgrade is not None:
            data, upgrade = self._resume() + data[upgrade.args[0] :], None
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as again:
                upgrade = again

    def _resume(self) -> bytes:
        """Another parser in place of this one: returns the head that brings it to where this one stopped."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._resumed = True
        framing = [b"%b: %b\r\n" % each for each in self.headers if each[0] in _FRAMING]
        return b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing)

    def on_message_begin(self) -> None:
        if not self._resumed:
            self.url = b""
            self.headers = []
            self._in_head = True

    def on_url(self, url: bytes) -> None:
        if not self._resumed:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else a trailer, which RFC 9110 §6.5.1 lets a recipient discard, or a head's second reading
            # the parser leaves white space behind a value, against RFC 9112 §5.1
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._resumed:
            self._resumed = False
            return
        version = self.parser.get_http_version()
        named = dict(self.headers)
        if (fault := self._fault(version, named)) is not None:
            raise Unfit(fault)
        url = self.url
        if url.startswith(b"/") and b"#" not in url:
            path, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            path, query = parsed.path, parsed.query or b""
        text = path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": self.parser.get_method().decode("ascii"),
            "root_path": self.root_path,
            "path": self.root_path + (unquote(text) if "%" in text else text),
            "raw_path": self.root_path.encode("ascii") + path,
            "query_string": query,
            "headers": self.headers,
            NAMED: named,
            HEAD_MOST: self._head_most,
        }
        self.scope = cast("HTTPScope", scope)
        self._in_head = False  # not before: until now it may turn out to be no request
        self._in_body = self._moved = True
        self.on_head(version)

    def on_head(self, version: str) -> None:
        """The request's head is there, in `scope`; makes its `cycle`."""
        raise NotImplementedError

    def on_body(self, body: bytes) -> None:
        self._moved = True
        if self.cycle.response_complete:
            self.on_surplus(len(body))
        elif self.cycle.arrived(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_surplus(self, size: int) -> None:
        """So many bytes of a body came behind the answer."""

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self.cycle.scope[WHOLE] = True  # type: ignore[literal-required]
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.tell()

    def _fault(self, version: str, named: Mapping[bytes, bytes]) -> Fault | None:
        if version not in ("1.1", "1.0"):
            return HTTPStatus.BAD_REQUEST, "send HTTP/1.1, and its version behind the path"
        hosts = 1 if b"host" in named else 0
        if len(named) < len(self.headers):
            hosts = len([name for name, _ in self.headers if name == b"host"])
        if hosts != 1 and (hosts or version == "1.1"):
            return HTTPStatus.BAD_REQUEST, f"the header Host is there {hosts} times; send it once"
        if b"transfer-encoding" in named and self._coding() != b"chunked":
            return HTTPStatus.NOT_IMPLEMENTED, "the Transfer-Encoding is not chunked; no other one is read"
        # a client of HTTP/1.0 knows of no answer before the answer
        self.expect_100_continue = (
            b"expect" in named and version == "1.1" and named[b"expect"].lower() == b"100-continue"
        )
        return None

    def _coding(self) -> bytes:
        """What all headers say of the body's transfer."""
        return b", ".join([value for name, value in self.headers if name == b"transfer-encoding"]).strip().lower()

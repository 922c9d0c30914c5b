"""Plain ASGI middleware: turns away requests whose head is out of proportion, before anything looks at them."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api.bodies import close_slowly
from gateway.api.problems import Refused, problem_reply

MAX_TARGET = 8192
"""Bytes of path and query."""


class HeadGuard:
    """Refuses too many headers, too many bytes of them (431), or too long a path and query (414)."""

    def __init__(
        self, app: ASGIApp, *, max_headers: int, max_header_bytes: int, on_refusal: Callable[[int], None]
    ) -> None:
        self._app = app
        self._max_headers = max_headers
        self._max_header_bytes = max_header_bytes
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            self._on_refusal(refusal.status)
            await close_slowly(problem_reply(refusal), receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refused | None:
        headers = scope["headers"]
        if len(headers) > self._max_headers:
            return Refused(431, f"{len(headers)} headers; at most {self._max_headers} are allowed", close=True)
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
        if size > self._max_header_bytes:
            return Refused(431, f"{size} bytes of headers; at most {self._max_header_bytes} are allowed", close=True)
        if len(scope["path"]) + len(scope["query_string"]) > MAX_TARGET:
            return Refused(414, f"the path and query are longer than {MAX_TARGET} bytes", close=True)
        return None

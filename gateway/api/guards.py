"""Turns away requests whose head is out of proportion, before anything looks at them."""

from __future__ import annotations

from itertools import chain

from starlette.types import Scope

from gateway.api.problems import Refused
from gateway.api.scope import HEAD_MOST

MAX_TARGET = 8192
"""Bytes of path and query."""


class HeadGuard:
    """Refuses too many headers, too many bytes of them (431), or too long a path and query (414)."""

    def __init__(self, *, max_headers: int, max_header_bytes: int) -> None:
        self._max_headers = max_headers
        self._max_header_bytes = max_header_bytes

    def refusal(self, scope: Scope) -> Refused | None:
        """Why the request is refused; None if it is not."""
        headers = scope["headers"]
        if len(headers) > self._max_headers:
            return Refused(431, f"{len(headers)} headers; at most {self._max_headers} are allowed", close=True)
        most = scope.get(HEAD_MOST)
        if most is None or most > self._max_header_bytes:
            size = sum(map(len, chain.from_iterable(headers)))
            if size > self._max_header_bytes:
                detail = f"{size} bytes of headers; at most {self._max_header_bytes} are allowed"
                return Refused(431, detail, close=True)
        if len(scope["path"]) + len(scope["query_string"]) > MAX_TARGET:
            return Refused(414, f"the path and query are longer than {MAX_TARGET} bytes", close=True)
        return None

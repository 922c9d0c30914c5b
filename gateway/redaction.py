"""Requests without what proves who sent them: for whatever is shown or kept of one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "***"

_SENSITIVE = re.compile(
    r"authorization|signature|secret|token|passw|cookie|api-?key|hmac|digest|credential|session|jwt|\bkey\b|\bsig\b",
    re.IGNORECASE,
)


def hide_headers(headers: Iterable[tuple[str, str]], own: Collection[str] = ()) -> list[tuple[str, str]]:
    """The headers, with the values of those that may hold a secret or a signature replaced; `own` are more of them."""
    return [(name, HIDDEN if name in own or _SENSITIVE.search(name) else value) for name, value in headers]


def hide_query(url: str, own: Collection[str] = ()) -> str:
    """The path and query, with the values of parameters of such names replaced."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    shown = []
    for item in parts.query.split("&"):
        name, sign, value = item.partition("=")
        hidden = sign and (name in own or _SENSITIVE.search(name))
        shown.append(f"{name}={HIDDEN}" if hidden else f"{name}{sign}{value}")
    return urlunsplit(("", "", parts.path, "&".join(shown), ""))

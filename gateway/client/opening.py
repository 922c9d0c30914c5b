"""How both clients connect, and what they send."""

from __future__ import annotations

import re
import ssl
import uuid
from typing import Any, TypedDict
from urllib.parse import urlsplit

import httpx

from gateway.client.bodies import JobOptions
from gateway.client.call import Call
from gateway.client.following import IDLE_S

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 10.0
RETRIES = 4
PAGE = 100
_CONNECT_S = 5.0
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_KEEP_S = 2.0
"""Well under the 5 s after which a gateway drops an idle connection: one that it drops as we send costs a retry."""


class ConnectionOptions(TypedDict):
    """What httpx's clients are made with."""

    base_url: httpx.URL
    headers: dict[str, str]
    timeout: httpx.Timeout
    limits: httpx.Limits
    follow_redirects: bool
    verify: ssl.SSLContext | bool


class RequestOptions(TypedDict):
    """What a request of theirs is made with."""

    method: str
    url: str
    params: dict[str, str]
    headers: dict[str, str]
    content: bytes
    timeout: httpx.Timeout


def connection_options(url: str, key: str | None, timeout_s: float) -> ConnectionOptions:
    """ValueError for a URL that is none, or a key that cannot be sent. Redirects are not followed: the key would go
    along."""
    if key and _VISIBLE.fullmatch(key) is None:  # the library would say so too, and show it
        raise ValueError("the API key has a space, a line break or another character that no key has")
    try:
        parts, base_url = urlsplit(url), httpx.URL(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        known = False
    if not known:
        raise ValueError(f"{url!r} is no URL of a gateway; write https://gateway.example or {DEFAULT_URL}")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("a gateway's URL has no query, fragment or password; give the API key as `key`")
    return ConnectionOptions(
        base_url=base_url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_KEEP_S),
        follow_redirects=False,
        # without TLS the certificates of the world need not be read; whoever comes to it all the same is not trusted
        verify=parts.scheme == "https" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )


def request_options(call: Call[Any], timeout_s: float) -> RequestOptions:
    """A call as a request, which may take as long as it is held and `timeout_s` more."""
    headers = dict(call.headers)
    if call.content:
        headers["Content-Type"] = "application/json"
    return RequestOptions(
        method=call.method,
        url=call.path,
        params=dict(call.query),
        headers=headers,
        content=call.content,
        timeout=httpx.Timeout(timeout_s + call.hold_s, connect=min(_CONNECT_S, timeout_s)),
    )


def new_key() -> str:
    """A fresh idempotency key."""
    return uuid.uuid4().hex


def keyed(options: JobOptions, *, retries: int) -> JobOptions:
    """The options with an idempotency key, which whatever may be tried again must have."""
    if options.get("idempotency_key") or not retries:
        return options
    return {**options, "idempotency_key": new_key()}


def stream_options(query: dict[str, str], headers: dict[str, str], timeout_s: float) -> RequestOptions:
    """A request for a stream of events, which may be silent for a while."""
    return RequestOptions(
        method="GET",
        url="/events",
        params=query,
        headers=headers,
        content=b"",
        timeout=httpx.Timeout(timeout_s, read=IDLE_S, connect=min(_CONNECT_S, timeout_s)),
    )

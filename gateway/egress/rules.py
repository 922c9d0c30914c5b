"""What a URL and a header of a call-out may look like; checked once, when it is configured or registered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from yarl import URL

MAX_URL = 2048
MAX_HEADERS = 32
MAX_HEADER_BYTES = 8192

FRAMING = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that say how the message is framed or routed: only the client itself may write them."""

_OURS = frozenset({"idempotency-key", "traceparent"})
_OURS_PREFIXES = ("gateway-", "proxy-", "webhook-")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?\Z|\Z")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?\Z")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")


@lru_cache(maxsize=4096)
def check_url(url: str) -> URL:
    """The parsed URL of a call-out; ValueError says what is wrong with it.

    http or https, a host, no user info, no fragment, at most 2048 characters, port 80, 443 or from 1024. An IPv4
    address is written as four decimal numbers. Whether the address may be reached is checked at every connect.
    """
    if len(url) > MAX_URL:
        raise ValueError(f"a URL of {len(url)} characters; at most {MAX_URL} are allowed")
    if _UNPRINTABLE.search(url):
        raise ValueError("a URL has no spaces, control characters or backslashes: percent-encode them")
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() not in ("http", "https"):
        shown = "" if "@" in url else f", not with {url[:16]!r}"  # a password may stand there
        raise ValueError(f"a URL starts with http:// or https://{shown}")
    if "#" in rest:
        raise ValueError("a URL to call has no fragment (#…)")
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    if "@" in authority:
        raise ValueError("a URL to call has no user or password: send an authorization header")
    try:
        parsed = URL(url)
    except ValueError as exc:
        raise ValueError(f"not a URL: {exc}") from exc
    _check_host(parsed.raw_host or "", bracketed="[" in authority)
    _check_port(parsed.port)
    return parsed


def _check_host(host: str, *, bracketed: bool) -> None:
    if not host:
        raise ValueError("the URL names no host")
    if bracketed:
        _check_ipv6(host)
        return
    if len(host.removesuffix(".")) > 253 or _NAME.match(host) is None:
        raise ValueError(f"not a host name: {host[:64]!r}")
    if _NUMBER.match(host.removesuffix(".").rpartition(".")[2]):
        _check_ipv4(host)


def _check_ipv6(host: str) -> None:
    if "%" in host:
        raise ValueError(f"an address with a zone cannot be called: {host!r}")
    try:
        IPv6Address(host)
    except ValueError as exc:
        raise ValueError(f"not an IPv6 address: {host!r}") from exc


def _check_ipv4(host: str) -> None:
    try:
        IPv4Address(host)
    except ValueError as exc:
        raise ValueError(f"not an IPv4 address: {host!r}; write four decimal numbers, as in 203.0.113.7") from exc


def _check_port(port: int | None) -> None:
    if port not in (80, 443) and (port is None or port < 1024):
        raise ValueError(f"port {port} cannot be called: use 80, 443, or one from 1024 up")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises ValueError unless the headers may be added to every request to a target."""
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"{len(headers)} headers; at most {MAX_HEADERS} are allowed")
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADER_BYTES:
        raise ValueError(f"the headers are longer than {MAX_HEADER_BYTES} bytes together")
    seen: set[str] = set()
    for name, value in headers.items():
        if _TOKEN.match(name) is None:
            raise ValueError(f"not a header name: {name!r}")
        if _VALUE.match(value) is None:
            raise ValueError(f"the value of header {name!r} has a character that is not visible ASCII")
        lower = name.lower()
        if lower in FRAMING or lower in _OURS or lower.startswith(_OURS_PREFIXES):
            raise ValueError(f"header {name!r} is set by the gateway and cannot be configured")
        if lower in seen:
            raise ValueError(f"header {name!r} is there twice")
        seen.add(lower)


def check_framing(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The headers' names in lower case; ValueError if one would change how the request is framed: two lengths are two
    requests."""
    return frozenset([_checked(name) for name, _ in headers])


@lru_cache(maxsize=4096)
def _checked(name: str) -> str:
    lower = name.lower()
    if _TOKEN.match(name) is None:
        raise ValueError(f"not a header name: {name!r}")
    if lower in FRAMING:
        raise ValueError(f"header {name!r} is written by the client itself")
    return lower

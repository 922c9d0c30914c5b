"""Requests without what proves who sent them: for whatever is shown or kept of one."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

import msgspec

from gateway.secret import Secret

HIDDEN = "***"

SHORTEST = 8
"""What is shorter may be any word, and hiding it would spoil what is shown."""

_SAME_EVERYWHERE = re.compile(r"[A-Za-z0-9_.~-]*\Z", re.ASCII)
_PUBLIC = frozenset({"idempotency-key"})
_SENSITIVE = re.compile(
    r"authorization|signature|secret|token|passw|cookie|api-?key|hmac|digest|credential|session|jwt|\bkey\b|\bsig\b|\bmac\b",
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


def secrets_sent(headers: Iterable[tuple[str, str]], url: str, own: Collection[str] = ()) -> list[bytes]:
    """What of a request proves who sent it, in the forms in which an answer may show it, the longest first.

    That is the values of headers and of parameters of the URL whose names say so, or are among `own` (lower case).
    """
    found: set[str] = set()
    for name, value in headers:
        if name.lower() in own or (name.lower() not in _PUBLIC and _SENSITIVE.search(name)):
            found.update(_credentials(value))
    for item in url.partition("?")[2].split("&"):
        name, _, value = item.partition("=")
        if _SENSITIVE.search(name):
            found.update((value, *(text for _, text in parse_qsl(item))))
    forms = {form.encode() for text in found if len(text) >= SHORTEST for form in _forms(text)}
    return sorted(forms, key=len, reverse=True)


def hide_sent(body: bytes, secrets: Iterable[bytes], *, cut: bool = False) -> bytes:
    """An answer's body without those; `cut`: its end is missing, and a secret may be cut there."""
    for secret in secrets:
        body = body.replace(secret, HIDDEN.encode())
        if cut:
            body = _without_begin(body, secret)
    return body


def secrets_of(config: object) -> list[bytes]:
    """The secrets that a configuration holds, in the forms in which a text may show them, the longest first."""
    forms = {
        form.encode() for text in _revealed(config) if len(text.strip()) >= SHORTEST for form in _forms(text.strip())
    }
    return sorted(forms, key=len, reverse=True)


def hide_text(text: str, secrets: Collection[bytes]) -> str:
    """A text without those."""
    return text if not secrets else hide_sent(text.encode(errors="replace"), secrets).decode()


def hide_within(value: Any, secrets: Collection[bytes], levels: int = 32) -> Any:
    """A JSON value whose texts are without those, and without what lies deeper."""
    if not secrets:
        return value
    if not levels:
        return HIDDEN
    if isinstance(value, str):
        return hide_text(value, secrets)
    if isinstance(value, dict):
        return {name: hide_within(each, secrets, levels - 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [hide_within(each, secrets, levels - 1) for each in value]
    return value


def _revealed(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _revealed(getattr(value, name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _revealed(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _revealed(each)


def _without_begin(body: bytes, secret: bytes) -> bytes:
    for length in range(len(secret) - 1, SHORTEST - 1, -1):
        if body.endswith(secret[:length]):
            return body[:-length] + HIDDEN.encode()
    return body


def _credentials(value: str) -> Iterator[str]:
    """A header's value, what stands in it behind a scheme, and the password of a basic one."""
    yield value
    scheme, _, rest = value.partition(" ")
    if not rest:
        return
    yield rest
    if scheme.lower() == "basic":
        try:
            yield base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return


def _forms(text: str) -> Iterator[str]:
    """A text as it is, and as JSON, HTML and URLs have it."""
    if _SAME_EVERYWHERE.match(text):
        yield text
        return
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    yield from (text, quoted, quoted.replace("/", "\\/"), json.dumps(text)[1:-1])
    yield from (html.escape(text), html.escape(text, quote=False), quote(text), quote(text, safe=""))

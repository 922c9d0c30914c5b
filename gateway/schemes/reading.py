"""What a request says of its signature: the parts of its header, the time, the URL that was signed."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from gateway.errors import Rejected
from gateway.schemes.keys import decode_digest
from gateway.schemes.scheme import Scheme
from gateway.verifier import WebhookRequest

MAX_PARTS = 16
"""Signatures of a header that are looked at, beside its time; a longer list is refused."""

_DIGITS = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_LABEL = re.compile(r"[\x21-\x7e]+")
_WORDS = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)*")
_MAX_LABEL = 256
_URL = re.compile(r"(https?)://((?:[^/?#@]*@)?(?:\[[^\]/?#]*\]|[^/?#:@]*))(:[0-9]+)?(.*)", re.DOTALL | re.ASCII)
_PORTS = {"http": ":80", "https": ":443"}
_ESCAPES = re.compile(r"%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)
"""The escapes that HubSpot writes out before it signs; all others stay as they are."""


def header_parts(scheme: Scheme, value: str) -> list[str]:
    """The signature header's parts, as the separator makes them of it."""
    most = MAX_PARTS + bool(scheme.timestamp_prefix)
    parts = [part.strip(" ") for part in value.split(scheme.separator, most)]
    if len(parts) > most:
        raise Rejected("malformed")
    return parts


def candidates(scheme: Scheme, parts: Sequence[str], sizes: Container[int]) -> list[bytes]:
    """The digests that decode to full length; a shorter or longer one is no candidate, whatever it starts with."""
    prefix, encoding = scheme.prefix, scheme.encoding
    found = []
    for part in parts:
        if part.startswith(prefix) and len(digest := decode_digest(part[len(prefix) :], encoding)) in sizes:
            found.append(digest)
    if not found:
        raise Rejected("malformed")
    return found


def signed_time(scheme: Scheme, parts: Sequence[str], request: WebhookRequest) -> str | None:
    """The timestamp's text as it was signed, None if the scheme has none beside the body."""
    if scheme.timestamp_prefix:
        found = [part for part in parts if part.startswith(scheme.timestamp_prefix)]
        return found[0][len(scheme.timestamp_prefix) :] if len(found) == 1 else _malformed()
    return request.one(scheme.timestamp_header.lower()) if scheme.timestamp_header else None


def seconds(text: str, written: str) -> float:
    """Unix seconds; Rejected unless it is plain digits without a leading zero (or RFC 3339).

    A text that could be written in two ways could also be moved in two ways across the border to whatever is signed
    beside it.
    """
    if written == "rfc3339":
        if _RFC3339.fullmatch(text) is None:
            raise Rejected("malformed")
        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError) as exc:
            raise Rejected("malformed") from exc
    if _DIGITS.fullmatch(text) is None:
        raise Rejected("malformed")
    return int(text) / 1000 if written == "milliseconds" else float(int(text))


def body_time(value: Any) -> str:
    """A time that a field of the body holds, as a number or as text."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**15:
        return str(value)
    return value if isinstance(value, str) else _malformed()


def label(request: WebhookRequest, header: str) -> str:
    """The only value of a header, printable ASCII without spaces; Rejected if it is missing or anything else."""
    return _checked(request.one(header.lower()), _LABEL)


def optional_label(request: WebhookRequest, header: str) -> str:
    """The same, empty where the scheme names no such header or the request has none."""
    return _checked(request.optional(header.lower()), _LABEL) if header else ""


def event_name(request: WebhookRequest, header: str) -> str:
    """The type of an event by a header, which may be words (`Push Hook`); empty where there is none."""
    return _checked(request.optional(header.lower()), _WORDS) if header else ""


def _checked(value: str | None, kind: re.Pattern[str]) -> str:
    if value is None:
        return ""
    if len(value) > _MAX_LABEL or kind.fullmatch(value) is None:
        raise Rejected("malformed")
    return value


def signed_urls(form: str, url: str) -> list[str]:
    """The spellings of our URL that a provider may have signed."""
    if form == "unescaped":
        return [_ESCAPES.sub(lambda found: chr(int(found[1], 16)), url)]
    parts = _URL.fullmatch(url) if form == "any-port" else None
    if parts is None:
        return [url]
    kind, host, port, rest = parts.groups()
    path, mark, query = rest.partition("?")
    queries = dict.fromkeys((query, query.replace("%27", "'"), query.replace("'", "%27"), _rewritten(query)))
    return [f"{kind}://{host}{at}{path}{mark}{each}" for each in queries for at in (port or _PORTS[kind], "")]


def _rewritten(query: str) -> str:
    """As Node's `querystring` writes what it read, which Twilio's library takes too: the values of a name together."""
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return urlencode(values, doseq=True, quote_via=quote, safe="-_.!~*'()")


def query_value(url: str, name: str) -> str | None:
    """A query parameter, the first of its name."""
    query = url.partition("#")[0].partition("?")[2]
    return next((value for key, value in parse_qsl(query, keep_blank_values=True) if key == name), None)


def placed_at(url: str, configured: str | None) -> str:
    """The URL that was signed: the configured one without its fragment, which nobody sends, and with the request's
    query, to which senders add; its own stands in where the request has none, as behind a proxy that rewrites."""
    if configured is None:
        return url
    place, _, own = configured.partition("#")[0].partition("?")
    query = url.partition("?")[2] or own
    return f"{place}?{query}" if query else place


def _malformed() -> str:
    raise Rejected("malformed")

"""A signature scheme as a value: where the signature stands, what it covers, what tells a repeat.

One table of fields covers the families of schemes in use: an HMAC of the body alone (GitHub, Shopify), a signature
header that holds the time too (Stripe, Paddle), headers of their own for time and id (Slack, Twitch), a signature over
the URL (Twilio, Square, HubSpot), and public keys (Discord, SendGrid). Secrets that are sent as they are have
`TokenScheme`.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from gateway.durations import Duration

Algorithm = Literal["sha256", "sha1", "sha512", "plain-sha256", "ed25519", "ecdsa-p256", "rsa-sha256"]
BodyFormat = Literal["json", "form", "either"]

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~\-]+", re.ASCII)
PLACEHOLDER = re.compile(r"(\{body\}|\{form\}|\{crc32\}|\{timestamp\}|\{id\}|\{url\}|\{method\})")
FIELD = re.compile(r"[A-Za-z0-9_\-]{1,64}(\.[A-Za-z0-9_\-]{1,64}){0,7}", re.ASCII)
"""A path into a JSON body: `event.id`."""

_HEADER_FIELDS = ("header", "timestamp_header", "id_header", "event_header")


class Scheme(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signature scheme, checked when it is made: one that would leave the body or the time unsigned is a ValueError.

    `signed` is what the signature covers, over `{body}` (the bytes as they came), `{form}` (the names and values of a
    form body, sorted), `{crc32}` (the body's checksum in digits), `{timestamp}`, `{id}`, `{url}` and `{method}`.
    `prefix` stands before each signature; `separator`, where given, splits the header into parts of which those with
    the prefix are candidates.

    The time is in a header of its own, in a part of the signature header (`timestamp_prefix`), or in a field of the
    body; `tolerance` (seconds) is how far it may lie from our clock, either way.

    A repeat is told by the signed `{id}`, else by fields of the body (`id_fields`, of which the first must be there),
    else by the unsigned `id_header` with the body's hash (without the time of `timestamp_field`), else, with
    `dedupe_body`, by that hash alone, else by the hash of what was signed with a time. `event_fields` tell the type:
    the first that is there.
    """

    header: str
    algorithm: Algorithm = "sha256"
    encoding: Literal["hex", "base64", "base64url"] = "hex"
    prefix: str = ""
    separator: str = ""
    signed: str = "{body}"
    timestamp_header: str = ""
    timestamp_prefix: str = ""
    timestamp_field: str = ""
    timestamp_format: Literal["seconds", "milliseconds", "rfc3339"] = "seconds"
    tolerance: Duration = Duration(300.0)
    id_header: str = ""
    id_fields: tuple[str, ...] = ()
    item_fields: tuple[str, ...] = ()
    dedupe_body: bool = False
    event_header: str = ""
    event_fields: tuple[str, ...] = ()
    secret_encoding: Literal["utf-8", "base64", "hex", "whsec"] = "utf-8"  # noqa: S105 - how it is written, not one
    url_form: Literal["exact", "any-port", "unescaped"] = "exact"
    body_hash_query: str = ""
    body_format: BodyFormat = "json"
    form_field: str = ""

    def __post_init__(self) -> None:
        check_names(self, _HEADER_FIELDS, required="header")
        for path in (*self.id_fields, *self.item_fields, *self.event_fields, self.timestamp_field or "t"):
            if FIELD.fullmatch(path) is None:
                raise ValueError(f"{path!r} is no path into a body; write names with dots: event.id")
        _check_template(self)
        _check_time(self)

    @property
    def asymmetric(self) -> bool:
        """Whether we hold only the public half of the key."""
        return self.algorithm in ("ed25519", "ecdsa-p256", "rsa-sha256")


def check_names(scheme: msgspec.Struct, fields: tuple[str, ...], *, required: str = "") -> None:
    """Raises ValueError for a field that is no header name; only `required` may not be empty."""
    for field in fields:
        name = getattr(scheme, field)
        if (name or field == required) and HEADER_NAME.fullmatch(name) is None:
            raise ValueError(f"{field} is no header name: {name!r}")


def changed(scheme: Scheme, **fields: Any) -> Scheme:
    """The scheme with other values of some fields."""
    return msgspec.structs.replace(scheme, **fields)


def with_tolerance(scheme: Scheme, tolerance: Duration | None) -> Scheme:
    """The scheme with another tolerance; the same for None."""
    return scheme if tolerance is None else msgspec.structs.replace(scheme, tolerance=tolerance)


def pieces(signed: str) -> list[str]:
    """The template as literals and placeholders."""
    return [piece for piece in PLACEHOLDER.split(signed) if piece]


def _check_template(scheme: Scheme) -> None:
    signed = scheme.signed
    if re.search(r"[{}]", PLACEHOLDER.sub("", signed)):
        known = "{body}, {form}, {crc32}, {timestamp}, {id}, {url} and {method}"
        raise ValueError(f"signed may only hold {known} in braces")
    if sum(map(signed.count, ("{body}", "{form}", "{crc32}"))) != 1:
        raise ValueError("signed must hold {body} (or {form}, or {crc32}) once: nothing else authenticates it")
    if "{crc32}" in signed:
        _check_checksum(signed)
    if "{form}" in signed and scheme.body_format != "form":
        raise ValueError('{form} in signed needs body_format = "form"')
    if "{id}{body}" in signed or "{body}{id}" in signed:
        raise ValueError("signed needs a separator between {id} and {body}: bytes could move from one to the other")
    if "{id}" in signed and not scheme.id_header:
        raise ValueError("{id} in signed needs id_header")
    if scheme.body_hash_query and "{url}" not in signed:
        raise ValueError("body_hash_query needs {url} in signed: nothing else authenticates the hash")


def _check_checksum(signed: str) -> None:
    """Another body with the same checksum is easily made: it must be a repeat, and late soon."""
    if "{id}" not in signed or "{timestamp}" not in signed:
        raise ValueError("{crc32} in signed needs {id} and {timestamp}: whoever has a delivery can change its body")
    if "}{crc32}" in signed or "{crc32}{" in signed:
        raise ValueError("signed needs a separator at {crc32}: its digits could move")


def _check_time(scheme: Scheme) -> None:
    places = [bool(scheme.timestamp_header), bool(scheme.timestamp_prefix), bool(scheme.timestamp_field)]
    if sum(places) > 1:
        raise ValueError("timestamp_header, timestamp_prefix and timestamp_field exclude each other")
    if scheme.timestamp_prefix and not scheme.separator:
        raise ValueError("timestamp_prefix needs a separator that splits the signature header")
    if ("{timestamp}" in scheme.signed) != bool(scheme.timestamp_header or scheme.timestamp_prefix):
        raise ValueError("{timestamp} in signed and timestamp_header (or timestamp_prefix) need each other")

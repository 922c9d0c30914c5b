"""The declarative verifier: any source that puts an HMAC of its bytes into a header, said in configuration.

Three families are covered. The body alone is signed (Shopify, Bitbucket, Meta, Typeform, PagerDuty); the timestamp
or id travel in headers of their own (Slack); the timestamp travels in the signature header (Stripe, Paddle):

    header = "stripe-signature"          # t=…,v1=…[,v1=…]: a part that starts with neither prefix is skipped
    separator = ","
    prefix = "v1="
    timestamp_prefix = "t="
    signed = "{timestamp}.{body}"
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from gateway import Delivery, Duration, Rejected, Secret, Settings, Verifier, WebhookRequest, hookimpl

MAX_PARTS = 16
"""Parts of a signature header that are looked at; a longer list is refused."""

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~\-]+", re.ASCII)
_PLACEHOLDER = re.compile(r"(\{body\}|\{timestamp\}|\{id\})")
_SECONDS = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)
_LABEL = re.compile(r"[\x21-\x7e]{1,256}")


class HmacConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signature scheme and its secrets.

    `signed` is what the MAC covers, over `{body}`, `{timestamp}` and `{id}`; `prefix` stands before each signature;
    `separator`, where given, splits the header into parts of which those with the prefix are candidates.
    `tolerance` (seconds) is how far the timestamp may lie from our clock, either way. `id_header` names what a
    delivery is deduplicated by, `event_header` its type.
    """

    secrets: tuple[Secret, ...]
    header: str
    algorithm: Literal["sha256", "sha1", "sha512"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str = ""
    separator: str = ""
    signed: str = "{body}"
    timestamp_header: str = ""
    timestamp_prefix: str = ""
    tolerance: Duration = Duration(300.0)
    id_header: str = ""
    event_header: str = ""
    secret_encoding: Literal["utf-8", "base64", "hex", "whsec"] = "utf-8"  # noqa: S105 - how it is written, not one

    def __post_init__(self) -> None:
        if not self.secrets:
            raise ValueError("secrets needs at least one secret")
        for secret in self.secrets:
            decode_key(secret, self.secret_encoding)
        for field in ("header", "timestamp_header", "id_header", "event_header"):
            name = getattr(self, field)
            if (name or field == "header") and _TOKEN.fullmatch(name) is None:
                raise ValueError(f"{field} is no header name: {name!r}")
        _check_template(self)


class HmacVerifier(Verifier[HmacConfig]):
    """Checks deliveries by the scheme that its trigger declares."""

    name = "hmac"
    Config = HmacConfig

    def __init__(self, config: HmacConfig) -> None:
        super().__init__(config)
        self._keys = [decode_key(secret, config.secret_encoding) for secret in config.secrets]

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, if one of its candidates is the MAC by one of the secrets and its time is near `now`."""
        return check(self.config, self._keys, request=request, now=now)


def check(scheme: HmacConfig, keys: Sequence[bytes], *, request: WebhookRequest, now: float) -> Delivery:
    """Verifies one request by one scheme: pure, linear in the request, raises nothing but Rejected.

    The time is judged after the MAC, so that the reason `timestamp` means a genuine delivery that is late.
    """
    parts = _parts(scheme, request.one(scheme.header.lower()))
    candidates = _candidates(scheme, parts)
    timestamp = _timestamp(scheme, parts, request=request)
    delivery_id = _label(request, scheme.id_header)
    facts = {b"{body}": request.body, b"{timestamp}": timestamp.encode(), b"{id}": delivery_id.encode()}
    message = b"".join(facts.get(piece, piece) for piece in _pieces(scheme.signed))
    if not _matches(keys, candidates, message=message, algorithm=scheme.algorithm):
        raise Rejected("mismatch")
    if timestamp and abs(now - int(timestamp)) > scheme.tolerance:
        raise Rejected("timestamp")
    event = _label(request, scheme.event_header) if request.values(scheme.event_header.lower()) else ""
    return Delivery(_dedupe_id(scheme, delivery_id, message=message, body=request.body), event)


def decode_key(secret: Secret, encoding: str) -> bytes:
    """The MAC's key; raises ValueError, without showing the secret, if it is empty or not of the encoding."""
    text = secret.reveal()
    try:
        if encoding == "hex":
            key = bytes.fromhex(text)
        elif encoding == "utf-8":
            key = text.encode()
        else:
            text = text.removeprefix("whsec_") if encoding == "whsec" else text
            key = binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError:
        raise ValueError(f"a secret is not valid {encoding}; see secret_encoding") from None
    if not key:
        raise ValueError("a secret is empty; give a secret or remove the entry")
    return key


def _parts(scheme: HmacConfig, value: str) -> list[str]:
    """The header's parts: all of it, or what the separator makes of it."""
    if not scheme.separator:
        return [value]
    parts = [part.strip(" ") for part in value.split(scheme.separator, MAX_PARTS)]
    if len(parts) > MAX_PARTS:
        raise Rejected("malformed")
    return parts


def _candidates(scheme: HmacConfig, parts: Sequence[str]) -> list[bytes]:
    """The digests that decode to full length; a shorter or longer one is no candidate, whatever it starts with."""
    size = hashlib.new(scheme.algorithm, usedforsecurity=False).digest_size
    texts = [part[len(scheme.prefix) :] for part in parts if part.startswith(scheme.prefix)]
    digests = [digest for text in texts if (digest := _decode_digest(text, scheme.encoding, size=size)) is not None]
    if not digests:
        raise Rejected("malformed")
    return digests


def _decode_digest(text: str, encoding: str, *, size: int) -> bytes | None:
    """The digest's `size` bytes, or None if the text is not exactly their hex or canonical base64.

    Python's strict base64 still takes surplus padding and stray last bits: hence the way back.
    """
    try:
        if encoding == "hex":
            digest = bytes.fromhex(text) if len(text) == 2 * size else b""
        else:
            digest = binascii.a2b_base64(text, strict_mode=True)
            digest = digest if binascii.b2a_base64(digest, newline=False) == text.encode() else b""
    except ValueError:
        return None
    return digest if len(digest) == size else None


def _timestamp(scheme: HmacConfig, parts: Sequence[str], *, request: WebhookRequest) -> str:
    """The timestamp's text, empty if the scheme has none.

    ASCII digits with no leading zero: a text that could be written in two ways could also be moved in two ways
    across the border to whatever is signed beside it.
    """
    if scheme.timestamp_prefix:
        found = [part for part in parts if part.startswith(scheme.timestamp_prefix)]
        text = found[0][len(scheme.timestamp_prefix) :] if len(found) == 1 else ""
    elif scheme.timestamp_header:
        text = request.one(scheme.timestamp_header.lower())
    else:
        return ""
    if _SECONDS.fullmatch(text) is None:
        raise Rejected("malformed")
    return text


def _label(request: WebhookRequest, header: str) -> str:
    """The only value of a header, printable ASCII; empty if the scheme names no such header."""
    if not header:
        return ""
    if _LABEL.fullmatch(value := request.one(header.lower())) is None:
        raise Rejected("malformed")
    return value


def _pieces(signed: str) -> list[bytes]:
    """The template as literals and placeholders."""
    return [piece.encode() for piece in _PLACEHOLDER.split(signed) if piece]


def _matches(keys: Sequence[bytes], candidates: Sequence[bytes], *, message: bytes, algorithm: str) -> bool:
    """Whether any key made any candidate; tries all of them, so that time does not tell which."""
    expected = [hmac.digest(key, message, algorithm) for key in keys]
    return sum(hmac.compare_digest(mac, candidate) for mac in expected for candidate in candidates) > 0


def _dedupe_id(scheme: HmacConfig, delivery_id: str, *, message: bytes, body: bytes) -> str | None:
    """What a repeat is recognised by; always signed, or bound to what is.

    A signed id as it is; an unsigned one with the body's hash; without an id, the hash of the signed message if a
    timestamp makes it unique. A scheme with neither is not deduplicated: two equal bodies may be two events.
    """
    if "{id}" in scheme.signed:
        return delivery_id
    if delivery_id:
        return f"{delivery_id}:{hashlib.sha256(body).hexdigest()[:32]}"
    return hashlib.sha256(message).hexdigest()[:32] if "{timestamp}" in scheme.signed else None


def _check_template(scheme: HmacConfig) -> None:
    """Refuses, with ValueError, a scheme that would leave the body or the timestamp unauthenticated."""
    if re.search(r"[{}]", _PLACEHOLDER.sub("", scheme.signed)):
        raise ValueError("signed may only hold {body}, {timestamp} and {id} in braces")
    if scheme.signed.count("{body}") != 1:
        raise ValueError("signed must hold {body} once: nothing else authenticates it")
    if "{id}{body}" in scheme.signed or "{body}{id}" in scheme.signed:
        raise ValueError("signed needs a separator between {id} and {body}: bytes could move from one to the other")
    if scheme.timestamp_header and scheme.timestamp_prefix:
        raise ValueError("timestamp_header and timestamp_prefix exclude each other")
    if scheme.timestamp_prefix and not scheme.separator:
        raise ValueError("timestamp_prefix needs a separator that splits the signature header")
    if ("{timestamp}" in scheme.signed) != bool(scheme.timestamp_header or scheme.timestamp_prefix):
        raise ValueError("{timestamp} in signed and timestamp_header (or timestamp_prefix) need each other")
    if "{id}" in scheme.signed and not scheme.id_header:
        raise ValueError("{id} in signed needs id_header")


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `hmac`."""
    return [HmacVerifier]

"""Sources that sign nothing and send a secret as it is, in a header or a query parameter.

Whoever sees one request can send any other: it is what the provider offers, and HTTPS is all that protects it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, TypeVar

import msgspec

from gateway.errors import Rejected
from gateway.schemes.reading import event_name, optional_label, query_value
from gateway.schemes.scheme import check_names
from gateway.schemes.verifier import SecretsConfig, own_secrets
from gateway.secret import Secret
from gateway.verifier import Delivery, Verifier, WebhookRequest

C = TypeVar("C", bound=msgspec.Struct)

_HEADER_FIELDS = ("header", "id_header", "event_header")
_CONFIGURABLE = ("header", "prefix", "query", "id_header", "event_header")


class TokenScheme(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the secret stands: a header, after `prefix` (its case does not matter), or the parameter `query` if the
    header is missing. `encoding` base64 is that of `user:password` in Basic authentication.

    `id_header` tells a repeat, together with the body's hash; with `dedupe_body` that hash does alone.
    """

    header: str
    prefix: str = ""
    query: str = ""
    encoding: Literal["", "base64"] = ""
    id_header: str = ""
    dedupe_body: bool = False
    event_header: str = ""

    def __post_init__(self) -> None:
        check_names(self, _HEADER_FIELDS, required="header")


class LabelConfig(SecretsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of a source of any kind: `id_header` tells a repeat (with the body's hash), `event_header` the type."""

    id_header: str = ""
    event_header: str = ""


class TokenVerifier(Verifier[C]):
    """Checks that a delivery brings one of the secrets."""

    scheme: ClassVar[TokenScheme]

    def __init__(self, config: C) -> None:
        super().__init__(config)
        self._scheme = self.own_scheme(config)
        self._secrets = own_secrets(config)
        self._digests = token_digests(self._secrets)

    def own_scheme(self, config: C) -> TokenScheme:
        """The scheme as this trigger's configuration has it."""
        own = {name: value for name in _CONFIGURABLE if (value := getattr(config, name, None))}
        return msgspec.structs.replace(self.scheme, **own) if own else self.scheme

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery; there is no time, so `now` does not matter."""
        if not is_known(self._presented(request), self._digests):
            raise Rejected("mismatch")
        return token_delivery(self._scheme, request)

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request with the first secret."""
        return with_token(self._scheme, request, secret=self._secrets[0], event=event)

    def _presented(self, request: WebhookRequest) -> bytes:
        scheme = self._scheme
        if scheme.query and not request.values(scheme.header.lower()):
            value = query_value(request.url, scheme.query)
            if value is None:
                raise Rejected("no_signature")
            return value.encode("utf-8", "replace")
        value = request.one(scheme.header.lower())
        if value[: len(scheme.prefix)].lower() != scheme.prefix.lower():
            raise Rejected("malformed")
        value = value[len(scheme.prefix) :]
        return _decoded(value) if scheme.encoding else value.encode("latin-1")


def is_known(presented: bytes, digests: Sequence[bytes]) -> bool:
    """Whether it is one of the secrets, by their digests: neither time nor length tells how much of it is right."""
    own = _digest(presented)
    return sum(hmac.compare_digest(own, digest) for digest in digests) > 0


def with_token(scheme: TokenScheme, request: WebhookRequest, *, secret: Secret, event: str = "") -> WebhookRequest:
    """The request as a source sends it that brings this secret. Headers that it has stay as they are."""
    given = dict(request.headers)
    text = secret.reveal().encode()
    value = base64.b64encode(text) if scheme.encoding else text
    own = {scheme.header: scheme.prefix + value.decode("latin-1"), scheme.event_header: event}
    own |= {scheme.id_header: str(uuid.uuid4())}
    headers = tuple((name.lower(), text) for name, text in own.items() if name and text and name.lower() not in given)
    return replace(request, headers=(*request.headers, *headers))


def token_digests(secrets: Sequence[Secret]) -> list[bytes]:
    """What `is_known` compares with."""
    return [_digest(secret.reveal().encode()) for secret in secrets]


def token_delivery(scheme: TokenScheme, request: WebhookRequest) -> Delivery:
    """The delivery of a request that brought its secret: a repeat is the same id with the same body."""
    label = optional_label(request, scheme.id_header)
    known = bool(label) or scheme.dedupe_body
    found = f"{label}:{hashlib.sha256(request.body).hexdigest()[:32]}" if known else None
    return Delivery(found, event_name(request, scheme.event_header))


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _decoded(text: str) -> bytes:
    """The bytes of a canonical base64 text; Rejected if it is anything else."""
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except ValueError as exc:
        raise Rejected("malformed") from exc
    if binascii.b2a_base64(raw, newline=False).decode() != text:
        raise Rejected("malformed")
    return raw

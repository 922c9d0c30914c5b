"""No verification at all, for sources that have none: whoever knows the URL may send.

It has to be spelled out (`verifier = "none"`), so that nobody gets there by leaving something out.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from gateway import Delivery, Settings, Verifier, WebhookRequest, hookimpl, schemes


class NoneConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`id_header` tells a repeat (with the body's hash), `event_header` the type."""

    id_header: str = ""
    event_header: str = ""

    def __post_init__(self) -> None:
        schemes.TokenScheme(header="x", id_header=self.id_header, event_header=self.event_header)


class NoneVerifier(Verifier[NoneConfig]):
    """Takes everything."""

    name = "none"
    Config = NoneConfig

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery; Rejected only for an id or a type that cannot be one."""
        label = schemes.optional_label(request, self.config.id_header)
        found = f"{label}:{hashlib.sha256(request.body).hexdigest()[:32]}" if label else None
        return Delivery(found, schemes.event_name(request, self.config.event_header))

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request as it is."""
        return request


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `none`."""
    return [NoneVerifier]

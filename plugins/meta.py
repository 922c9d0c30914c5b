"""Meta (Facebook, Instagram, WhatsApp): `X-Hub-Signature-256: sha256=…`, an HMAC-SHA256 of the body by the app secret.

A body holds entries with an id and a time, so equal bodies are the same delivery.
"""

from __future__ import annotations

import hmac
import re
from typing import Any

from gateway import HandshakeResponse, Rejected, Secret, Settings, Verifier, WebhookRequest, hookimpl, schemes

_CHALLENGE = re.compile(r"[A-Za-z0-9._\-]{1,256}", re.ASCII)
"""Meta's is a number; whoever asks with our verify token is not known otherwise."""

SCHEME = schemes.Scheme(
    header="x-hub-signature-256",
    prefix="sha256=",
    dedupe_body=True,
    event_fields=("object",),
)


class MetaConfig(schemes.SecretsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`verify_token` is the text that was typed into Meta's form beside the URL; without it nothing is subscribed."""

    verify_token: Secret | None = None


class MetaVerifier(schemes.SchemeVerifier[MetaConfig]):
    """Answers the subscription's GET."""

    name = "meta"
    Config = MetaConfig
    scheme = SCHEME

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """The challenge, if the verify token is ours."""
        if request.method != "GET":
            return None
        token = schemes.query_value(request.url, "hub.verify_token")
        if schemes.query_value(request.url, "hub.mode") != "subscribe" or token is None:
            raise Rejected("no_signature")
        ours = self.config.verify_token.reveal() if self.config.verify_token else ""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), ours.encode()) or not ours:
            raise Rejected("mismatch")
        challenge = schemes.query_value(request.url, "hub.challenge") or ""
        if _CHALLENGE.fullmatch(challenge) is None:
            raise Rejected("malformed")
        return schemes.echo(challenge)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `meta`."""
    return [MetaVerifier]

"""Dropbox: `X-Dropbox-Signature`, an HMAC-SHA256 of the body in hex by the app secret.

A notification only says for whom something changed: it has no id, and two equal ones are two hints.
"""

from __future__ import annotations

from typing import Any

from gateway import HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(header="x-dropbox-signature")


class DropboxVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Answers the GET with its challenge, which Dropbox does not sign."""

    name = "dropbox"
    Config = schemes.SecretsConfig
    scheme = SCHEME

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """The challenge."""
        challenge = schemes.query_value(request.url, "challenge") if request.method == "GET" else None
        return None if challenge is None else schemes.echo(challenge)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `dropbox`."""
    return [DropboxVerifier]

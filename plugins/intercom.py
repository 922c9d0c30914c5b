"""Intercom: `X-Hub-Signature: sha1=…`, an HMAC-SHA1 of the body in hex by the client secret."""

from __future__ import annotations

from typing import Any

from gateway import HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-hub-signature",
    algorithm="sha1",
    prefix="sha1=",
    id_fields=("id",),
    event_fields=("topic",),
)


class IntercomVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Answers the HEAD by which Intercom looks whether there is anything at the URL."""

    name = "intercom"
    Config = schemes.SecretsConfig
    scheme = SCHEME

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """An empty answer."""
        return HandshakeResponse(200) if request.method == "HEAD" else None


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `intercom`."""
    return [IntercomVerifier]

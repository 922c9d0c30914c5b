"""Okta event hooks: the secret as it is in `Authorization`, and a challenge in a header when the hook is verified."""

from __future__ import annotations

from typing import Any

from gateway import HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

CHALLENGE = "x-okta-verification-challenge"


class OktaVerifier(schemes.TokenVerifier[schemes.SecretsConfig]):
    """Answers the one-time verification, which is a GET and brings no secret."""

    name = "okta"
    Config = schemes.SecretsConfig
    scheme = schemes.TokenScheme(header="authorization", dedupe_body=True)

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """The challenge as JSON."""
        if request.method != "GET" or not request.values(CHALLENGE):
            return None
        return schemes.json_answer({"verification": schemes.plain(request.one(CHALLENGE))})


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `okta`."""
    return [OktaVerifier]

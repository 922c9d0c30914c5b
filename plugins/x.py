"""X (Twitter): `X-Twitter-Webhooks-Signature: sha256=…`, an HMAC-SHA256 of the body in base64 by the consumer secret.

The challenge (CRC) is answered with its HMAC by the same secret, to anyone who asks. So that nobody can have a delivery
signed that way, a challenge is plain characters, and a delivery is a JSON object.
"""

from __future__ import annotations

import base64
from typing import Any

from gateway import Delivery, HandshakeResponse, Rejected, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-twitter-webhooks-signature",
    encoding="base64",
    prefix="sha256=",
    dedupe_body=True,
)


class XVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Answers the challenge-response check."""

    name = "x"
    Config = schemes.SecretsConfig
    scheme = SCHEME

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """The challenge's proof by the first secret."""
        token = schemes.query_value(request.url, "crc_token") if request.method == "GET" else None
        if token is None:
            return None
        made = schemes.proof(self.config.secrets[0].reveal(), token)
        return schemes.json_answer({"response_token": "sha256=" + base64.b64encode(made).decode()})

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery; Rejected (`body`) for one that is no object."""
        delivery = super().verify(request, now)
        if not request.body.lstrip(b" \t\r\n").startswith(b"{"):
            raise Rejected("body")
        return delivery


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `x`."""
    return [XVerifier]

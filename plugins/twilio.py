"""Twilio: `X-Twilio-Signature`, an HMAC of the URL and the sorted fields of the form, in base64.

It is by SHA-1 and the account's auth token, or by what `X-Twilio-Webhooks-Signature-Settings` names and a shared key.
Twilio signs the URL with or without its port, so both pass. A JSON body is bound by its hash in the URL, `bodySHA256`.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, Rejected, Settings, Verifier, WebhookRequest, hookimpl, schemes

SHA1 = schemes.Scheme(
    header="x-twilio-signature",
    algorithm="sha1",
    encoding="base64",
    signed="{url}{form}",
    url_form="any-port",
    body_hash_query="bodySHA256",
    body_format="form",
    id_header="i-twilio-idempotency-token",
    id_fields=("MessageSid", "MessageStatus"),
    event_fields=("MessageStatus", "CallStatus"),
)
SHA256 = schemes.changed(SHA1, algorithm="sha256")
_SETTINGS = "x-twilio-webhooks-signature-settings"


class TwilioVerifier(schemes.SchemeVerifier[schemes.UrlConfig]):
    """Checks by the algorithm that the request names; `secrets` are auth tokens and shared keys."""

    name = "twilio"
    Config = schemes.UrlConfig
    scheme = SHA1

    def __init__(self, config: schemes.UrlConfig) -> None:
        super().__init__(config)
        self._by_sha256 = schemes.Check(SHA256, secrets=config.secrets, url=config.url)

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery; Rejected (`malformed`) for an algorithm that is not known."""
        algorithm = _algorithm(request.optional(_SETTINGS) or "")
        if algorithm == "HMAC_SHA256":
            return self._by_sha256(request, now)
        if algorithm != "HMAC_SHA1":
            raise Rejected("malformed")
        return super().verify(request, now)


def _algorithm(settings: str) -> str:
    """What `key=…,algorithm=…` names; HMAC_SHA1 where it names none."""
    for part in settings.split(","):
        name, _, value = part.partition("=")
        if name.strip() == "algorithm" and value.strip():
            return value.strip().upper()
    return "HMAC_SHA1"


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `twilio`."""
    return [TwilioVerifier]

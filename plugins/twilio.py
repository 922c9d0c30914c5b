"""Twilio: `X-Twilio-Signature`, an HMAC-SHA1 of the URL and the sorted fields of the form, in base64.

Twilio signs the URL with or without its port, so both pass. A JSON body is bound by its hash in the URL, `bodySHA256`.
"""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
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


class TwilioVerifier(schemes.SchemeVerifier[schemes.UrlConfig]):
    """Checks by the scheme."""

    name = "twilio"
    Config = schemes.UrlConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `twilio`."""
    return [TwilioVerifier]

"""Zendesk: `X-Zendesk-Webhook-Signature`, an HMAC-SHA256 of the time as it is written and the body, in base64."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-zendesk-webhook-signature",
    encoding="base64",
    timestamp_header="x-zendesk-webhook-signature-timestamp",
    timestamp_format="rfc3339",
    signed="{timestamp}{body}",
    id_header="x-zendesk-webhook-invocation-id",
    event_fields=("type",),
)


class ZendeskVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Checks by the scheme."""

    name = "zendesk"
    Config = schemes.TimedConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `zendesk`."""
    return [ZendeskVerifier]

"""SendGrid's Event Webhook: ECDSA over P-256 by a key of SendGrid's, over the time and the body.

The body is an array of events that ends with a line break, which is signed. A retry brings the same events, possibly in
other arrays: a route that takes them one by one (`each`) knows each by its `sg_event_id`.
"""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-twilio-email-event-webhook-signature",
    algorithm="ecdsa-p256",
    encoding="base64",
    timestamp_header="x-twilio-email-event-webhook-timestamp",
    signed="{timestamp}{body}",
    item_fields=("sg_event_id",),
    dedupe_body=True,
)


class SendgridVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Checks by the scheme."""

    name = "sendgrid"
    Config = schemes.TimedConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `sendgrid`."""
    return [SendgridVerifier]

"""Slack: `X-Slack-Signature: v0=…`, an HMAC-SHA256 of `v0:{timestamp}:` and the body.

Events are JSON; slash commands are forms, and interactions are JSON in a form's field `payload`, which routes see as
`body`. The URL verification is signed like everything else, and is answered once it verifies.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-slack-signature",
    prefix="v0=",
    timestamp_header="x-slack-request-timestamp",
    signed="v0:{timestamp}:{body}",
    id_fields=("event_id",),
    event_fields=("event.type", "type", "command"),
    body_format="either",
    form_field="payload",
)
_QUESTION = schemes.BodyFields(("type", "challenge"))


class SlackVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Answers `url_verification`."""

    name = "slack"
    Config = schemes.TimedConfig
    scheme = SCHEME

    def answer(self, request: WebhookRequest, delivery: Delivery) -> HandshakeResponse | None:
        """The challenge."""
        asked = _QUESTION.read(request.body)
        return schemes.echo(asked.get("challenge")) if asked.get("type") == "url_verification" else None


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `slack`."""
    return [SlackVerifier]

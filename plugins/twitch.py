"""Twitch EventSub: `sha256=…`, an HMAC-SHA256 of the message's id, its time as it is written, and the body."""

from __future__ import annotations

from typing import Any

from gateway import Delivery, Duration, HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="twitch-eventsub-message-signature",
    prefix="sha256=",
    timestamp_header="twitch-eventsub-message-timestamp",
    timestamp_format="rfc3339",
    tolerance=Duration(600.0),
    id_header="twitch-eventsub-message-id",
    signed="{id}{timestamp}{body}",
    event_header="twitch-eventsub-subscription-type",
    event_fields=("subscription.type",),
)
_QUESTION = schemes.BodyFields(("challenge",))


class TwitchVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Answers the callback's verification; a revocation is a delivery, so that a route may act on it."""

    name = "twitch"
    Config = schemes.TimedConfig
    scheme = SCHEME

    def answer(self, request: WebhookRequest, delivery: Delivery) -> HandshakeResponse | None:
        """The challenge, where the signed body has one: the message's type is in an unsigned header."""
        if schemes.optional_label(request, "twitch-eventsub-message-type") != "webhook_callback_verification":
            return None
        return schemes.echo(_QUESTION.read(request.body).get("challenge"))


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `twitch`."""
    return [TwitchVerifier]

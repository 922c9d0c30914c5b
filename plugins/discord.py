"""Discord: Ed25519 by the application's key, over the time and the body.

Discord probes an endpoint with wrong signatures, and keeps it only if they get a 401. Its own questions are signed:
an interaction of type 1 (PING), and an event of type 0.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-signature-ed25519",
    algorithm="ed25519",
    timestamp_header="x-signature-timestamp",
    signed="{timestamp}{body}",
    id_fields=("id",),
    event_fields=("event.type", "type"),
)
_QUESTION = schemes.BodyFields(("type",))


class DiscordVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Answers both PINGs; `secrets` are public keys in hex."""

    name = "discord"
    Config = schemes.TimedConfig
    scheme = SCHEME

    def answer(self, request: WebhookRequest, delivery: Delivery) -> HandshakeResponse | None:
        """A PONG for a PING of interactions, nothing for one of events, by their type."""
        kind = _QUESTION.read(request.body).get("type")
        if isinstance(kind, bool) or kind not in (0, 1):
            return None
        return schemes.json_answer({"type": 1}) if kind == 1 else HandshakeResponse(204)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `discord`."""
    return [DiscordVerifier]

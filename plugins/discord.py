"""Discord: Ed25519 by the application's key, over the time and the body.

Discord probes an endpoint with wrong signatures, and keeps it only if they get a 401. Its own questions are signed:
an interaction of type 1 (PING), and an event of type 0. An event that is none has type 1 as well, and tells what it is
in `event`: it has no id, but a time of its own to the microsecond, so equal bodies are the same event.
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
    dedupe_body=True,
    event_fields=("event.type", "type"),
)
_QUESTION = schemes.BodyFields(("type", "event"))
_EMPTY = HandshakeResponse(204, headers=(("content-type", "application/json"),))
"""Discord wants a content type of the answer to a PING, empty as it is."""


class DiscordVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Answers both PINGs; `secrets` are public keys in hex."""

    name = "discord"
    Config = schemes.TimedConfig
    scheme = SCHEME

    def answer(self, request: WebhookRequest, delivery: Delivery) -> HandshakeResponse | None:
        """A PONG for a PING of interactions, nothing for one of events, by their type."""
        asked = _QUESTION.read(request.body)
        kind = asked.get("type")
        if isinstance(kind, bool) or kind not in (0, 1) or asked.get("event") is not None:
            return None
        return schemes.json_answer({"type": 1}) if kind == 1 else _EMPTY


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `discord`."""
    return [DiscordVerifier]

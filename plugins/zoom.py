"""Zoom: `x-zm-signature: v0=…`, an HMAC-SHA256 of `v0:{timestamp}:` and the body.

An event has no id, but its time to the millisecond (`event_ts`): equal bodies are the same event, also in a later
attempt.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, HandshakeResponse, Secret, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-zm-signature",
    prefix="v0=",
    timestamp_header="x-zm-request-timestamp",
    signed="v0:{timestamp}:{body}",
    dedupe_body=True,
    event_fields=("event",),
)
_QUESTION = schemes.BodyFields(("event", "payload.plainToken"))


class ZoomVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Answers `endpoint.url_validation` with the token's HMAC by the secret that the question is signed with."""

    name = "zoom"
    Config = schemes.TimedConfig
    scheme = SCHEME

    def answer(self, request: WebhookRequest, delivery: Delivery) -> HandshakeResponse | None:
        """The token and its proof; a token of plain characters is no signed content, which has colons."""
        asked = _QUESTION.read(request.body)
        if asked.get("event") != "endpoint.url_validation":
            return None
        token = schemes.plain(asked.get("payload.plainToken"))
        made = schemes.proof(self._asker(request).reveal(), token).hex()
        return schemes.json_answer({"plainToken": token, "encryptedToken": made})

    def _asker(self, request: WebhookRequest) -> Secret:
        """Which of the secrets signed a request that verifies: while they change over, Zoom knows one of them alone."""
        message = f"v0:{request.one(SCHEME.timestamp_header)}:".encode() + request.body
        signature = schemes.decode_digest(request.one(SCHEME.header).removeprefix(SCHEME.prefix), SCHEME.encoding)
        return next(
            secret
            for secret in self.config.secrets
            if schemes.matcher((secret,), SCHEME.algorithm, SCHEME.secret_encoding)(message, [signature])
        )


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `zoom`."""
    return [ZoomVerifier]

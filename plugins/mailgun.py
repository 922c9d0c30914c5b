"""Mailgun: an HMAC-SHA256 of a time and a random token, which stand beside the event in the body.

The event itself is not signed: whoever sees one delivery can send another event under its token. So the token is what a
repeat is known by: each route takes it once, and a second delivery with it is a repeat there, whatever it says.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import replace
from typing import Any

from gateway import Delivery, Duration, Rejected, Settings, Verifier, WebhookRequest, hookimpl, schemes

_SIGNATURES = ("signature", "parent-signature")
"""By the domain's account, and, where that is a subaccount, by the one over it too."""

_FIELDS = ("timestamp", "token", *_SIGNATURES)
_READ = (*_FIELDS, "event")
_JSON = schemes.BodyFields((*(f"signature.{name}" for name in _FIELDS), "event-data.event"))
_TOLERANCE = Duration(300.0)
_MAX_TOKEN = 128


class MailgunVerifier(Verifier[schemes.TimedConfig]):
    """Checks JSON bodies, and forms (routes of inbound mail; multipart where the mail has attachments), with the
    signature among the other fields."""

    name = "mailgun"
    Config = schemes.TimedConfig
    body_limit = 25 * 1024 * 1024

    def __init__(self, config: schemes.TimedConfig) -> None:
        super().__init__(config)
        self._tolerance = _TOLERANCE if config.tolerance is None else config.tolerance
        self._matches = schemes.matcher(config.secrets, "sha256", "utf-8")

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, its id the signed token."""
        parts = schemes.read_multipart(request.body)
        form = schemes.read_form(request.body) if parts is None and schemes.looks_like_form(request.body) else None
        if parts is not None:
            found = {part.name: part.text for part in parts if part.name in _READ and part.filename is None}
        else:
            found = dict(form) if form is not None else _json_fields(request.body)
        timestamp, token = found.get("timestamp", ""), found.get("token", "")
        signatures = [text for name in _SIGNATURES if (text := found.get(name))]
        if not signatures:
            raise Rejected("no_signature")
        at_s = schemes.seconds(timestamp, "seconds")
        digests = [digest for text in signatures if len(digest := schemes.decode_digest(text, "hex")) == 32]
        if not 0 < len(token) <= _MAX_TOKEN or not token.isascii() or not digests:
            raise Rejected("malformed")
        if not self._matches(f"{timestamp}{token}".encode(), digests):
            raise Rejected("mismatch")
        if not abs(now - at_s) <= self._tolerance:
            raise Rejected("timestamp")
        if parts is not None:
            form = tuple((part.name, part.value) for part in parts)
        return Delivery(token, schemes.as_label(found.get("event")), form=form)

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """A JSON object's `signature` made anew; None for another body."""
        try:
            content = json.loads(request.body)
        except ValueError:
            return None
        if not isinstance(content, dict):
            return None
        timestamp, token = str(int(now)), secrets.token_hex(25)
        mac = hmac.digest(self.config.secrets[0].reveal().encode(), f"{timestamp}{token}".encode(), "sha256")
        content["signature"] = {"timestamp": timestamp, "token": token, "signature": mac.hex()}
        return replace(request, body=json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


def _json_fields(body: bytes) -> dict[str, str]:
    values = _JSON.read(body)
    found = {name: values.get(f"signature.{name}") for name in _FIELDS} | {"event": values.get("event-data.event")}
    return {name: str(value) for name, value in found.items() if isinstance(value, (str, int))}


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `mailgun`."""
    return [MailgunVerifier]

"""Standard Webhooks deliveries (Svix, GitLab's signing token, OpenAI, Clerk, Resend and many more).

`webhook-id`, `webhook-timestamp` and `webhook-signature`, or the same three as `svix-…`. The id and the time are
signed, so the id alone is what a delivery is deduplicated by. Keys: `whsec_…` (or its base64 alone) for `v1`, the
sender's public `whpk_…` for `v1a`; list several during a rotation.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import msgspec

from gateway import Delivery, Duration, Secret, Settings, Verifier, WebhookRequest, hookimpl, schemes, signing

_NAMES = ("id", "timestamp", "signature")
_EVENT = schemes.BodyFields(("type",))


class StandardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The trigger's keys, and how far (seconds) a delivery's time may lie from our clock, either way."""

    secrets: tuple[Secret, ...]
    tolerance: Duration = Duration(300.0)

    def __post_init__(self) -> None:
        if not self.secrets:
            raise ValueError("secrets needs at least one key, whsec_… or whpk_…")
        for secret in self.secrets:
            _check_key(secret)


class StandardVerifier(Verifier[StandardConfig]):
    """Checks a Standard Webhooks delivery, symmetric (`v1`) or asymmetric (`v1a`)."""

    name = "standard"
    Config = StandardConfig

    def __init__(self, config: StandardConfig) -> None:
        super().__init__(config)
        self._secrets = [secret for secret in config.secrets if not _is_public(secret)]
        self._public_keys = [secret.reveal() for secret in config.secrets if _is_public(secret)]

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, its id the signed `webhook-id`; the event's type is in the body, if anywhere."""
        family = "webhook" if request.values("webhook-signature") else "svix"
        headers = [(f"webhook-{part}", value) for part in _NAMES for value in request.values(f"{family}-{part}")]
        signing.verify(
            headers,
            request.body,
            secrets=self._secrets,
            public_keys=self._public_keys,
            now=now,
            tolerance_s=self.config.tolerance,
        )
        event = schemes.as_label(_EVENT.read(request.body).get("type"))
        return Delivery(request.one(f"{family}-id"), event)

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request signed with the first `whsec_` secret; None where there are public keys only."""
        if not self._secrets:
            return None
        message_id = f"msg_{uuid.uuid4().hex}"
        signature = signing.sign(message_id, int(now), request.body, secrets=self._secrets[:1])
        own = {"webhook-id": message_id, "webhook-timestamp": str(int(now)), "webhook-signature": signature}
        return replace(request, headers=(*request.headers, *own.items()))


class SvixVerifier(StandardVerifier):
    """The same, under the name of who invented it."""

    name = "svix"


def _is_public(secret: Secret) -> bool:
    return secret.reveal().startswith(signing.PUBLIC_PREFIX)


def _check_key(secret: Secret) -> None:
    """Raises ValueError, without showing the key, unless a delivery can be verified with it."""
    if secret.reveal().startswith(signing.PRIVATE_PREFIX):
        raise ValueError("a whsk_ key is the sender's private half; configure its public half, whpk_…")
    if _is_public(secret):
        signing.parse_public_key(secret.reveal())
    else:
        signing.parse_secret(secret)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `standard` and `svix`."""
    return [StandardVerifier, SvixVerifier]

"""GitLab: a secret token sent as it is (`X-Gitlab-Token`), or, by a signing token, Standard Webhooks.

A secret that begins with `whsec_` is a signing token; with both kinds configured, a delivery that is signed is judged
by its signature alone.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, Rejected, Settings, Verifier, WebhookRequest, hookimpl, schemes

SIGNED = schemes.Scheme(
    header="webhook-signature",
    separator=" ",
    prefix="v1,",
    encoding="base64",
    secret_encoding="whsec",  # noqa: S106 - how it is written
    timestamp_header="webhook-timestamp",
    id_header="webhook-id",
    signed="{id}.{timestamp}.{body}",
    event_header="x-gitlab-event",
)
TOKEN = schemes.TokenScheme(
    header="x-gitlab-token",
    id_header="x-gitlab-event-uuid",
    event_header="x-gitlab-event",
)
_PREFIX = "whsec_"


class GitlabVerifier(Verifier[schemes.TimedConfig]):
    """Checks both kinds of deliveries."""

    name = "gitlab"
    Config = schemes.TimedConfig
    body_limit = 25 * 1024 * 1024

    def __init__(self, config: schemes.TimedConfig) -> None:
        super().__init__(config)
        signing = tuple(secret for secret in config.secrets if secret.reveal().startswith(_PREFIX))
        plain = tuple(secret for secret in config.secrets if secret not in signing)
        scheme = schemes.with_tolerance(SIGNED, config.tolerance)
        self._signed = schemes.Check(scheme, secrets=signing) if signing else None
        self._plain = plain
        self._digests = schemes.token_digests(plain)

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery; a bad signature never falls back to the token."""
        if self._signed is not None and (request.values(SIGNED.header) or not self._plain):
            return self._signed(request, now)
        if not schemes.is_known(request.one(TOKEN.header).encode("latin-1"), self._digests):
            raise Rejected("mismatch")
        return schemes.token_delivery(TOKEN, request)

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request signed, or with the token where there is nothing to sign with."""
        if self._signed is not None:
            return self._signed.sign(request, now, event=event)
        return schemes.with_token(TOKEN, request, secret=self._plain[0], event=event)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `gitlab`."""
    return [GitlabVerifier]

"""Shopify: `X-Shopify-Hmac-Sha256`, an HMAC-SHA256 of the body in base64; its Events name all headers without `X-`.

`X-Shopify-Webhook-Id` names a delivery over its retries. `X-Shopify-Event-Id` does not do: one event goes to several
topics, and the same order is the body of both.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, Settings, Verifier, WebhookRequest, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-shopify-hmac-sha256",
    encoding="base64",
    id_header="x-shopify-webhook-id",
    event_header="x-shopify-topic",
)
EVENTS = schemes.changed(
    SCHEME, header="shopify-hmac-sha256", id_header="shopify-webhook-id", event_header="shopify-topic"
)


class ShopifyVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the headers of a webhook, and, where there is no signature among them, by those of an Event."""

    name = "shopify"
    Config = schemes.SecretsConfig
    scheme = SCHEME

    def __init__(self, config: schemes.SecretsConfig) -> None:
        super().__init__(config)
        self._events = schemes.Check(EVENTS, secrets=config.secrets)

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery."""
        if request.has(EVENTS.header) and not request.has(SCHEME.header):
            return self._events(request, now)
        return super().verify(request, now)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `shopify`."""
    return [ShopifyVerifier]

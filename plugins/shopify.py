"""Shopify: `X-Shopify-Hmac-Sha256`, an HMAC-SHA256 of the body in base64.

`X-Shopify-Webhook-Id` names a delivery over its retries. `X-Shopify-Event-Id` does not do: one event goes to several
topics, and the same order is the body of both.
"""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-shopify-hmac-sha256",
    encoding="base64",
    id_header="x-shopify-webhook-id",
    event_header="x-shopify-topic",
)


class ShopifyVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the scheme."""

    name = "shopify"
    Config = schemes.SecretsConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `shopify`."""
    return [ShopifyVerifier]

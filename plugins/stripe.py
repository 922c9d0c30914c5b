"""Stripe: `Stripe-Signature: t=…,v1=…[,v1=…]`, an HMAC-SHA256 of `{t}.` and the body.

The key is the whole `whsec_…` text, not what its base64 says. `v0` is Stripe's test scheme, and is skipped.
"""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="stripe-signature",
    separator=",",
    prefix="v1=",
    timestamp_prefix="t=",
    signed="{timestamp}.{body}",
    id_fields=("id",),
    event_fields=("type",),
)


class StripeVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Checks by the scheme."""

    name = "stripe"
    Config = schemes.TimedConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `stripe`."""
    return [StripeVerifier]

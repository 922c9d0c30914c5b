"""PagerDuty (v3): `X-PagerDuty-Signature: v1=…[,v1=…]`, an HMAC-SHA256 of the body, one for each active secret."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-pagerduty-signature",
    separator=",",
    prefix="v1=",
    id_fields=("event.id",),
    event_fields=("event.event_type",),
)


class PagerdutyVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the scheme."""

    name = "pagerduty"
    Config = schemes.SecretsConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `pagerduty`."""
    return [PagerdutyVerifier]

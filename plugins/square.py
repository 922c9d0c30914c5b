"""Square: `X-Square-HmacSha256-Signature`, an HMAC-SHA256 of the notification URL and the body, in base64."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-square-hmacsha256-signature",
    encoding="base64",
    signed="{url}{body}",
    id_fields=("event_id",),
    event_fields=("type",),
)


class SquareVerifier(schemes.SchemeVerifier[schemes.UrlConfig]):
    """Checks by the scheme."""

    name = "square"
    Config = schemes.UrlConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `square`."""
    return [SquareVerifier]

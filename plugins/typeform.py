"""Typeform: `Typeform-Signature: sha256=…`, an HMAC-SHA256 of the body in base64."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="typeform-signature",
    encoding="base64",
    prefix="sha256=",
    id_fields=("event_id",),
    event_fields=("event_type",),
)


class TypeformVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the scheme."""

    name = "typeform"
    Config = schemes.SecretsConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `typeform`."""
    return [TypeformVerifier]

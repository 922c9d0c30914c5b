"""Notion: `X-Notion-Signature: sha256=…`, an HMAC-SHA256 of the body by the subscription's verification token."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-notion-signature",
    prefix="sha256=",
    id_fields=("id",),
    event_fields=("type",),
)


class NotionVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the scheme."""

    name = "notion"
    Config = schemes.SecretsConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `notion`."""
    return [NotionVerifier]

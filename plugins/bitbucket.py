"""Bitbucket: `X-Hub-Signature: sha256=…`, an HMAC-SHA256 of the body in hex."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-hub-signature",
    prefix="sha256=",
    id_header="x-request-uuid",
    event_header="x-event-key",
)


class BitbucketVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the scheme."""

    name = "bitbucket"
    Config = schemes.SecretsConfig
    scheme = SCHEME
    body_limit = 256 * 1024


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `bitbucket`."""
    return [BitbucketVerifier]

"""Paddle: `Paddle-Signature: ts=…;h1=…[;h1=…]`, an HMAC-SHA256 of `{ts}:` and the body.

Paddle's own libraries allow 5 s, which its retries and a slow network exceed; ours is 300 s unless it is configured.
"""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="paddle-signature",
    separator=";",
    prefix="h1=",
    timestamp_prefix="ts=",
    signed="{timestamp}:{body}",
    id_fields=("event_id",),
    event_fields=("event_type",),
)


class PaddleVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Checks by the scheme."""

    name = "paddle"
    Config = schemes.TimedConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `paddle`."""
    return [PaddleVerifier]

"""Mux: `Mux-Signature: t=…,v1=…`, an HMAC-SHA256 of `{t}.` and the body."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="mux-signature",
    separator=",",
    prefix="v1=",
    timestamp_prefix="t=",
    signed="{timestamp}.{body}",
    id_fields=("id",),
    event_fields=("type",),
)


class MuxVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Checks by the scheme."""

    name = "mux"
    Config = schemes.TimedConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `mux`."""
    return [MuxVerifier]

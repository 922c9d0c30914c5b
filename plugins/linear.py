"""Linear: `Linear-Signature`, an HMAC-SHA256 of the body in hex, whose `webhookTimestamp` is the time.

`Linear-Timestamp` says the same and is not signed, so nobody looks at it.
"""

from __future__ import annotations

from typing import Any

from gateway import Duration, Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="linear-signature",
    timestamp_field="webhookTimestamp",
    timestamp_format="milliseconds",
    tolerance=Duration(60.0),
    id_header="linear-delivery",
    event_header="linear-event",
    event_fields=("type",),
)


class LinearVerifier(schemes.SchemeVerifier[schemes.TimedConfig]):
    """Checks by the scheme."""

    name = "linear"
    Config = schemes.TimedConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `linear`."""
    return [LinearVerifier]

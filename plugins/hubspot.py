"""HubSpot: `X-HubSpot-Signature-v3`, an HMAC-SHA256 of the method, the URL, the body and the time, in base64.

v2 and v1 are SHA-256 of the secret and what follows, without a time: they are taken only where `versions` names them.
The body is an array of events; `eventId` is not unique by itself, and a retry counts `attemptNumber` up.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any, Literal

from gateway import Delivery, Rejected, Settings, Verifier, WebhookRequest, hookimpl, schemes

_ITEM = ("eventId", "subscriptionId", "objectId", "occurredAt")
_VERSION = "x-hubspot-signature-version"
_ATTEMPT = re.compile(rb'"attemptNumber"\s*:\s*[0-9]+')
SCHEMES = {
    "v3": schemes.Scheme(
        header="x-hubspot-signature-v3",
        encoding="base64",
        timestamp_header="x-hubspot-request-timestamp",
        timestamp_format="milliseconds",
        signed="{method}{url}{body}{timestamp}",
        url_form="unescaped",
        item_fields=_ITEM,
    ),
    "v2": schemes.Scheme(
        header="x-hubspot-signature",
        algorithm="plain-sha256",
        signed="{method}{url}{body}",
        item_fields=_ITEM,
    ),
    "v1": schemes.Scheme(header="x-hubspot-signature", algorithm="plain-sha256", item_fields=_ITEM),
}


class HubspotConfig(schemes.TimedUrlConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`versions` are the signatures that are taken."""

    versions: tuple[Literal["v3", "v2", "v1"], ...] = ("v3",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.versions:
            raise ValueError('versions needs at least one, such as ["v3"]')


class HubspotVerifier(Verifier[HubspotConfig]):
    """Checks by v3 where the request has it; by the older ones only where they are allowed and it has not."""

    name = "hubspot"
    Config = HubspotConfig

    def __init__(self, config: HubspotConfig) -> None:
        super().__init__(config)
        self._checks: dict[str, schemes.Check] = {
            version: schemes.Check(
                schemes.with_tolerance(SCHEMES[version], config.tolerance), secrets=config.secrets, url=config.url
            )
            for version in config.versions
        }

    @property
    def needs_public_url(self) -> bool:
        return any(check.needs_public_url for check in self._checks.values())

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery; a bad v3 never falls back to an older signature."""
        older: list[str] = [version for version in ("v2", "v1") if version in self._checks]
        if "v3" in self._checks and (request.values(SCHEMES["v3"].header) or not older):
            delivery = self._checks["v3"](request, now)
        else:
            delivery = self._by_older(request, now, older)
        if not request.body:
            return delivery
        return replace(delivery, id=hashlib.sha256(_ATTEMPT.sub(b"", request.body)).hexdigest()[:32])

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request signed by the first of the versions."""
        return self._checks[self.config.versions[0]].sign(request, now, event=event)

    def _by_older(self, request: WebhookRequest, now: float, versions: list[str]) -> Delivery:
        """By the version that the request names, where it names one; Rejected if that is not among `versions`."""
        named = request.optional(_VERSION)
        versions = [version for version in versions if named in (None, version)]
        if not versions:
            raise Rejected("no_signature")
        for version in versions[:-1]:
            try:
                return self._checks[version](request, now)
            except Rejected as exc:
                if exc.reason != "mismatch":
                    raise
        return self._checks[versions[-1]](request, now)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `hubspot`."""
    return [HubspotVerifier]

"""GitHub deliveries: `X-Hub-Signature-256: sha256=<hex>`, an HMAC-SHA256 of the raw body; SHA-1 only where asked for.

GitHub signs the body and nothing else, so neither `X-GitHub-Delivery`, nor `X-GitHub-Event`, nor a time is
authenticated. A delivery is therefore deduplicated by its GUID together with the body's hash: a forged GUID cannot
suppress a genuine delivery, and a redelivery is a duplicate. What remains is GitHub's: whoever gets hold of a signed
body can send it again under a GUID or an event name of their own, so a route that matters asks the body what it is.
"""

from __future__ import annotations

from typing import Any

from gateway import Delivery, Settings, Verifier, WebhookRequest, hookimpl, schemes

SHA256 = schemes.Scheme(
    header="x-hub-signature-256",
    prefix="sha256=",
    id_header="x-github-delivery",
    dedupe_body=True,
    event_header="x-github-event",
    body_format="either",
    form_field="payload",
)
SHA1 = schemes.changed(SHA256, header="x-hub-signature", prefix="sha1=", algorithm="sha1")


class GithubConfig(schemes.SecretsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The trigger's secrets (several during a rotation); `allow_sha1` takes deliveries that carry no SHA-256."""

    allow_sha1: bool = False


class GithubVerifier(schemes.SchemeVerifier[GithubConfig]):
    """Checks a GitHub webhook; JSON and form-encoded deliveries give routes the same body."""

    name = "github"
    Config = GithubConfig
    scheme = SHA256
    body_limit = 25 * 1024 * 1024

    def __init__(self, config: GithubConfig) -> None:
        super().__init__(config)
        self._by_sha1 = schemes.Check(SHA1, secrets=config.secrets)

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """SHA-1 only if it is allowed and nothing better came: a bad SHA-256 never falls back to it."""
        if self.config.allow_sha1 and not request.values(SHA256.header):
            return self._by_sha1(request, now)
        return super().verify(request, now)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `github`."""
    return [GithubVerifier]

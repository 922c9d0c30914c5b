"""Jira: `X-Hub-Signature: sha256=…`, an HMAC-SHA256 of the body in hex."""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes

SCHEME = schemes.Scheme(
    header="x-hub-signature",
    prefix="sha256=",
    id_header="x-atlassian-webhook-identifier",
    event_fields=("webhookEvent",),
)


class JiraVerifier(schemes.SchemeVerifier[schemes.SecretsConfig]):
    """Checks by the scheme."""

    name = "jira"
    Config = schemes.SecretsConfig
    scheme = SCHEME


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `jira`."""
    return [JiraVerifier]

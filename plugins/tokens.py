"""Secrets that are sent as they are: HTTP Basic, a bearer token, an API key, or any header.

Nothing is signed, so whoever sees one request can send others: use a signature where the source offers one.
"""

from __future__ import annotations

from typing import Any

from gateway import Settings, Verifier, hookimpl, schemes


class BasicConfig(schemes.LabelConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Secrets are `user:password`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(":" in secret.reveal() for secret in self.secrets):
            raise ValueError("a secret of basic is user:password")


class ApiKeyConfig(schemes.LabelConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`header` is where the key stands, `query` the parameter that may bring it instead."""

    header: str = "x-api-key"
    query: str = ""


class TokenConfig(schemes.LabelConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`header` is where the secret stands, after `prefix`; `query` the parameter that may bring it instead."""

    header: str
    prefix: str = ""
    query: str = ""


class BasicVerifier(schemes.TokenVerifier[BasicConfig]):
    """`Authorization: Basic …` (RFC 7617)."""

    name = "basic"
    Config = BasicConfig
    scheme = schemes.TokenScheme(header="authorization", prefix="Basic ", encoding="base64")


class BearerVerifier(schemes.TokenVerifier[schemes.LabelConfig]):
    """`Authorization: Bearer …` (RFC 6750)."""

    name = "bearer"
    Config = schemes.LabelConfig
    scheme = schemes.TokenScheme(header="authorization", prefix="Bearer ")


class ApiKeyVerifier(schemes.TokenVerifier[ApiKeyConfig]):
    """`X-Api-Key: …`, or another header."""

    name = "api-key"
    Config = ApiKeyConfig
    scheme = schemes.TokenScheme(header="x-api-key")


class FreeTokenVerifier(schemes.TokenVerifier[TokenConfig]):
    """A secret in any header."""

    name = "token"
    Config = TokenConfig
    scheme = schemes.TokenScheme(header="authorization")


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `basic`, `bearer`, `api-key` and `token`."""
    return [BasicVerifier, BearerVerifier, ApiKeyVerifier, FreeTokenVerifier]

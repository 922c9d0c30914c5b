"""Any source that signs what it sends, said in configuration: `hmac` by a shared secret, `public-key` by one of theirs.

Every field of a scheme can be written into a trigger; what a provider's preset says in a few lines of Python is the
same table here:

    header = "stripe-signature"          # t=…,v1=…[,v1=…]: a part that starts with neither prefix is skipped
    separator = ","
    prefix = "v1="
    timestamp_prefix = "t="
    signed = "{timestamp}.{body}"
"""

from __future__ import annotations

from typing import Any

from gateway import Secret, Settings, Verifier, hookimpl, schemes


class HmacConfig(schemes.Scheme, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signature scheme and its secrets; `url` is what the source was given, where `public_url` does not tell."""

    secrets: tuple[Secret, ...]
    url: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        schemes.matcher(self.secrets, self.algorithm, self.secret_encoding)


class FreeVerifier(schemes.SchemeVerifier[HmacConfig]):
    """Checks deliveries by the scheme that its trigger declares."""

    Config = HmacConfig

    def own_scheme(self, config: HmacConfig) -> schemes.Scheme:
        """The configuration is the scheme."""
        return config


class HmacVerifier(FreeVerifier):
    """By a shared secret."""

    name = "hmac"

    def __init__(self, config: HmacConfig) -> None:
        if config.asymmetric:
            raise ValueError(f'{config.algorithm} is by a public key; write verifier = "public-key"')
        super().__init__(config)


class PublicKeyVerifier(FreeVerifier):
    """By the source's key, of which `secrets` are the public halves."""

    name = "public-key"

    def __init__(self, config: HmacConfig) -> None:
        if not config.asymmetric:
            raise ValueError(f'{config.algorithm} is by a shared secret; write verifier = "hmac", or another algorithm')
        super().__init__(config)


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `hmac` and `public-key`."""
    return [HmacVerifier, PublicKeyVerifier]

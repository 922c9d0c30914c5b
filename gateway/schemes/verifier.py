"""A verifier made of a scheme: what a preset needs beside it, and what a trigger says of it."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, TypeVar

import msgspec

from gateway.durations import Duration
from gateway.schemes.check import Check
from gateway.schemes.scheme import Scheme, with_tolerance
from gateway.secret import Secret
from gateway.verifier import Delivery, HandshakeResponse, Verifier, WebhookRequest

C = TypeVar("C", bound=msgspec.Struct)


class SecretsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A preset's configuration: its secrets, several while they change over."""

    secrets: tuple[Secret, ...]

    def __post_init__(self) -> None:
        if not self.secrets or not all(secret.reveal() for secret in self.secrets):
            raise ValueError("secrets needs at least one secret, and none may be empty")


class TimedConfig(SecretsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of a preset that signs a time: `tolerance` instead of the preset's own."""

    tolerance: Duration | None = None


class UrlConfig(SecretsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of a preset that signs the URL: `url` is what the provider was given, where `public_url` does not tell."""

    url: str | None = None


class TimedUrlConfig(TimedConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of a preset that signs a time and the URL."""

    url: str | None = None


class SchemeVerifier(Verifier[C]):
    """Checks deliveries by `scheme`; a preset whose provider asks signed questions overrides `answer`."""

    scheme: ClassVar[Scheme]

    def __init__(self, config: C) -> None:
        super().__init__(config)
        self._answers = type(self).answer is not SchemeVerifier.answer
        self._check = Check(self.own_scheme(config), secrets=own_secrets(config), url=getattr(config, "url", None))

    @property
    def needs_public_url(self) -> bool:
        return self._check.needs_public_url

    def own_scheme(self, config: C) -> Scheme:
        """The scheme as this trigger's configuration has it."""
        return with_tolerance(self.scheme, getattr(config, "tolerance", None))

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, if one of its candidates is the signature by one of the secrets and its time is near `now`."""
        delivery = self._check(request, now)
        answer = self.answer(request, delivery) if self._answers else None
        return delivery if answer is None else dataclasses.replace(delivery, answer=answer)

    def answer(self, request: WebhookRequest, delivery: Delivery) -> HandshakeResponse | None:
        """What is sent back instead of making jobs, for a verified request that only wants an answer."""
        return None

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request signed with the first secret; None where only the provider holds the key."""
        return self._check.sign(request, now, event=event)


def own_secrets(config: msgspec.Struct) -> tuple[Secret, ...]:
    """The secrets of a configuration; every one of a scheme has them."""
    secrets: tuple[Secret, ...] = getattr(config, "secrets", ())
    return secrets

"""GitHub deliveries: `X-Hub-Signature-256: sha256=<hex>`, an HMAC-SHA256 of the raw body; SHA-1 only where asked for.

GitHub signs the body and nothing else, so neither `X-GitHub-Delivery`, nor `X-GitHub-Event`, nor a time is
authenticated. A delivery is therefore deduplicated by its GUID together with the body's hash: a forged GUID cannot
suppress a genuine delivery, and a redelivery is a duplicate. What remains is GitHub's: whoever gets hold of a signed
body can send it again under a GUID or an event name of their own, so a route that matters asks the body what it is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from gateway import Delivery, Rejected, Secret, Settings, Verifier, WebhookRequest, hookimpl

_SHA256 = ("x-hub-signature-256", re.compile(r"sha256=([0-9a-fA-F]{64})", re.ASCII), "sha256")
_SHA1 = ("x-hub-signature", re.compile(r"sha1=([0-9a-fA-F]{40})", re.ASCII), "sha1")
_LABEL = re.compile(r"[\x21-\x7e]{0,128}")
_FORM_FIELD = b"payload="


class GithubConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The trigger's secrets (several during a rotation); `allow_sha1` takes deliveries that carry no SHA-256."""

    secrets: tuple[Secret, ...]
    allow_sha1: bool = False

    def __post_init__(self) -> None:
        if not self.secrets or not all(secret.reveal() for secret in self.secrets):
            raise ValueError("secrets needs at least one secret, and none may be empty")


class GithubVerifier(Verifier[GithubConfig]):
    """Checks a GitHub webhook; JSON and form-encoded deliveries give routes the same body."""

    name = "github"
    Config = GithubConfig

    def __init__(self, config: GithubConfig) -> None:
        super().__init__(config)
        self._keys = [secret.reveal().encode() for secret in config.secrets]

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, its event from `X-GitHub-Event`; there is no timestamp, so `now` does not matter."""
        header, pattern, algorithm = self._scheme(request)
        found = pattern.fullmatch(request.one(header))
        if found is None:
            raise Rejected("malformed")
        if not _matches(self._keys, request.body, bytes.fromhex(found[1]), algorithm=algorithm):
            raise Rejected("mismatch")
        guid = _label(request, "x-github-delivery")
        digest = hashlib.sha256(request.body).hexdigest()[:32]
        return Delivery(f"{guid}:{digest}", _label(request, "x-github-event"), _form_json(request.body))

    def _scheme(self, request: WebhookRequest) -> tuple[str, re.Pattern[str], str]:
        """SHA-1 only if it is allowed and nothing better came: a bad SHA-256 never falls back to it."""
        if self.config.allow_sha1 and not request.values(_SHA256[0]):
            return _SHA1
        return _SHA256


def _matches(keys: Iterable[bytes], body: bytes, signature: bytes, *, algorithm: str) -> bool:
    """Whether any key made the signature; tries all of them, so that time does not tell which."""
    return sum(hmac.compare_digest(hmac.digest(key, body, algorithm), signature) for key in keys) > 0


def _label(request: WebhookRequest, header: str) -> str:
    """An unsigned header that is only passed on: empty if it is missing, never anything but printable ASCII."""
    if not request.values(header):
        return ""
    if _LABEL.fullmatch(value := request.one(header)) is None:
        raise Rejected("malformed")
    return value


def _form_json(body: bytes) -> bytes | None:
    """The JSON of a form-encoded delivery (`payload=…`, one field), None for any other body.

    Told from the signed bytes, not from the unsigned `Content-Type`: no JSON text starts with `payload=`, and a
    sender of the header must not be able to choose how a signed body is read.
    """
    if not body.startswith(_FORM_FIELD) or b"&" in body:
        return None
    return unquote_to_bytes(body[len(_FORM_FIELD) :].replace(b"+", b" "))


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `github`."""
    return [GithubVerifier]

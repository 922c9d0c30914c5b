"""Standard Webhooks signatures (standardwebhooks.com, specification 1.0.0): made on what leaves, checked on what comes.

What is signed is `{webhook-id}.{webhook-timestamp}.` and the body's bytes. `v1` is HMAC-SHA256 under a `whsec_`
secret, `v1a` is Ed25519 under a `whsk_` key whose public half, `whpk_`, may be shown to anyone.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from functools import lru_cache
from typing import TYPE_CHECKING

from gateway.errors import Rejected
from gateway.late import Late
from gateway.secret import Secret

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:  # 7 MB, and most dispatchers neither sign nor check with a key pair
    exceptions = Late("cryptography.exceptions")
    ed25519 = Late("cryptography.hazmat.primitives.asymmetric.ed25519")

SECRET_PREFIX = "whsec_"  # noqa: S105 - the marker that precedes a secret, not one
PRIVATE_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"

_SEED_BYTES = 32
"""Of noise: what an Ed25519 private key is (RFC 8032, 5.1.5)."""

_FIELD = 2**255 - 19
_SMALL_ORDER = frozenset({
    0, 1, _FIELD - 1,
    0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
})  # fmt: skip
"""The y of the eight points that come to nothing when they are doubled three times (RFC 8032, 5.1)."""

MAX_HEADER = 4096
MAX_CANDIDATES = 16
_SECONDS = re.compile(r"[0-9]{1,12}\Z")

Headers = Mapping[str, str] | Message | Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key pair, by its 32-byte seed; neither its repr nor its str shows that."""

    seed: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key."""
        return cls(os.urandom(_SEED_BYTES))

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """The key written as `whsk_` and the base64 of its 32-byte seed; ValueError on anything else."""
        seed = _decoded(text.removeprefix(PRIVATE_PREFIX))
        if not text.startswith(PRIVATE_PREFIX) or len(seed) != _SEED_BYTES:
            raise ValueError('not a signing key: write "whsk_" and the base64 of a 32-byte Ed25519 seed')
        return cls(seed)

    @property
    def private_key(self) -> ed25519.Ed25519PrivateKey:
        """The private half, to sign with."""
        return _private_key(self.seed)

    def reveal(self) -> str:
        """The private key as `whsk_…`, to be kept as a secret."""
        return PRIVATE_PREFIX + _encoded(self.seed)

    @property
    def public(self) -> str:
        """The public key as `whpk_…`, what a receiver verifies with."""
        return PUBLIC_PREFIX + _encoded(self.private_key.public_key().public_bytes_raw())


@lru_cache(maxsize=64)
def _private_key(seed: bytes) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(seed)


def parse_secret(secret: Secret | str) -> bytes:
    """The HMAC key of a `whsec_…` secret (prefix and padding may be left out); ValueError if it is not base64."""
    return _secret_key(secret.reveal() if isinstance(secret, Secret) else secret)


@lru_cache(maxsize=1024)
def _secret_key(text: str) -> bytes:
    if key := _decoded(text.removeprefix(SECRET_PREFIX)):
        return key
    raise ValueError(
        'not a Standard Webhooks secret: write "whsec_" and the base64 of 24 to 64 random bytes '
        "(`openssl rand -base64 32` prints some)"
    )


@lru_cache(maxsize=1024)
def parse_public_key(text: str) -> ed25519.Ed25519PublicKey:
    """The key written as `whpk_` and the base64 of its 32 bytes; ValueError on anything else."""
    key = _decoded(text.removeprefix(PUBLIC_PREFIX))
    if not text.startswith(PUBLIC_PREFIX) or len(key) != 32:
        raise ValueError('not a public key: write "whpk_" and the base64 of its 32 bytes')
    check_point(key)
    return ed25519.Ed25519PublicKey.from_public_bytes(key)


def check_point(key: bytes) -> None:
    """Raises ValueError for an Ed25519 public key under which anyone can sign, such as zeros that stand for a key to
    come: OpenSSL takes it. Also for one that is written otherwise than RFC 8032 has it, which nobody does by chance."""
    y = int.from_bytes(key, "little") % 2**255
    if y in _SMALL_ORDER or y >= _FIELD:
        raise ValueError("a public key under which anyone can sign (zeros are one); give the sender's own")


def sign(
    message_id: str,
    timestamp_s: int,
    body: bytes,
    *,
    secrets: Sequence[Secret | str] = (),
    private_key: ed25519.Ed25519PrivateKey | Sequence[ed25519.Ed25519PrivateKey] | None = None,
) -> str:
    """The `webhook-signature` value: one `v1` for each secret, or one `v1a` for each private key if there is none.

    `timestamp_s` is Unix seconds; raises ValueError without any key, or with a secret that is not base64.
    """
    content = f"{message_id}.{timestamp_s}.".encode() + body
    if secrets:
        return " ".join(["v1," + _encoded(hmac.digest(parse_secret(secret), content, "sha256")) for secret in secrets])
    keys = [private_key] if isinstance(private_key, ed25519.Ed25519PrivateKey) else private_key
    if not keys:
        raise ValueError("nothing to sign with: give a whsec_ secret or a private key")
    return " ".join("v1a," + _encoded(key.sign(content)) for key in keys)


def verify(
    headers: Headers,
    body: bytes,
    *,
    secrets: Sequence[Secret | str] = (),
    public_keys: Sequence[ed25519.Ed25519PublicKey | str] = (),
    now: float,
    tolerance_s: float = 300.0,
) -> None:
    """Returns if any signature is right under any of the keys and its time is near `now` (Unix seconds).

    Raises Rejected on whatever the sender got wrong, and ValueError only for keys that cannot be used.
    """
    macs_of = [parse_secret(secret) for secret in secrets]
    keys = [parse_public_key(key) if isinstance(key, str) else key for key in public_keys]
    if not macs_of and not keys:
        raise ValueError("no key to verify with")
    message_id, timestamp, signatures = _signed_headers(headers)
    if _SECONDS.match(timestamp) is None:
        raise Rejected("malformed")
    candidates = signatures.split(" ")
    if len(candidates) > MAX_CANDIDATES:
        raise Rejected("malformed")
    content = f"{message_id}.{timestamp}.".encode() + body
    macs = [hmac.digest(key, content, "sha256") for key in macs_of]
    if not any(_matches(candidate, content, macs, keys) for candidate in candidates):
        raise Rejected("mismatch")
    if abs(now - int(timestamp)) > tolerance_s:  # last: this reason is for what is genuine, and tells of a wrong clock
        raise Rejected("timestamp")


def _signed_headers(headers: Headers) -> tuple[str, str, str]:
    pairs = list(headers.items() if isinstance(headers, Mapping | Message) else headers)
    return _only(pairs, "webhook-id"), _only(pairs, "webhook-timestamp"), _only(pairs, "webhook-signature")


def _only(pairs: Sequence[tuple[str, str]], name: str) -> str:
    found = [value for key, value in pairs if key.lower() == name]
    if not found:
        raise Rejected("no_signature")
    value = found[0]
    if len(found) > 1 or not 0 < len(value) <= MAX_HEADER or not value.isascii():
        raise Rejected("malformed")
    return value


def _matches(candidate: str, content: bytes, macs: Sequence[bytes], keys: Sequence[ed25519.Ed25519PublicKey]) -> bool:
    version, _, encoded = candidate.partition(",")
    if version == "v1":
        signature = _signature(encoded)
        return any([hmac.compare_digest(signature, mac) for mac in macs])  # noqa: C419 - no early end
    if version == "v1a":
        signature = _signature(encoded)
        return any(_is_signed(key, signature, content) for key in keys)
    return False


def _is_signed(key: ed25519.Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    try:
        key.verify(signature, content)
    except exceptions.InvalidSignature:
        return False
    return True


def _signature(text: str) -> bytes:
    """The bytes of a signature in the one base64 text that it has; nothing for another text with the same bytes."""
    signature = _decoded(text)
    return signature if _encoded(signature) == text else b""


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    """The bytes of a base64 text, padded or not; nothing if it is not base64."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""

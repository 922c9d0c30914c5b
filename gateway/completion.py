"""The token by which work that went on elsewhere is ended: what holds the job, and a MAC that only this installation
can make. It works once, since it holds the job no longer then."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from functools import lru_cache

from gateway.signing import SigningKey

_PREFIX = "gwt"
_MAC_BYTES = 16
_PURPOSE = b"event-gateway completion token"


def completion_token(key: SigningKey, job_id: str, token: str) -> str:
    """The text for an attempt's fencing token."""
    return f"{_PREFIX}.{_encoded(token.encode())}.{_encoded(_mac(key, job_id, token))}"


def read_completion_token(keys: Sequence[SigningKey], job_id: str, text: str) -> str | None:
    """The fencing token of a job that a text stands for; None if nobody of ours made the text for that job."""
    prefix, _, rest = text.partition(".")
    if prefix != _PREFIX or len(text) > 512 or not text.isascii():
        return None
    try:
        token = _decoded(rest.partition(".")[0]).decode()
    except ValueError:
        return None
    # the texts, not what they decode to: several spell the same bytes
    ours = [completion_token(key, job_id, token) for key in keys]
    if any([hmac.compare_digest(each, text) for each in ours]):  # noqa: C419 (no early end)
        return token
    return None


def _mac(key: SigningKey, job_id: str, token: str) -> bytes:
    mac = _keyed(key).copy()
    mac.update(f"{job_id}.{token}".encode())
    return mac.digest()


@lru_cache(maxsize=64)
def _keyed(key: SigningKey) -> hashlib.blake2b:
    """A MAC that has taken in its key: each attempt needs one, and keyed BLAKE2 costs a third of HMAC here."""
    secret = hashlib.sha256(_PURPOSE + key.seed).digest()
    return hashlib.blake2b(digest_size=_MAC_BYTES, key=secret)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)

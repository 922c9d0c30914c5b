"""API keys: `gwk_<id>_<secret>`, of which only the SHA-256 of the secret is kept.

The secret is 256 random bits, so one fast hash is enough: there is no dictionary to try.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from gateway.jobs import Callback

Scope = Literal["submit", "read", "url", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

PREFIX = "gwk_"
_TEXT = re.compile(r"gwk_([A-Za-z0-9]{1,64})_([A-Za-z0-9_\-]{16,256})\Z", re.ASCII)
_ID_ALPHABET = string.ascii_lowercase + string.digits
_NO_DIGEST = "0" * 64


class ApiKey(msgspec.Struct, frozen=True):
    """A key as it is stored; `created_ms` in Unix milliseconds. `admin` may do all that the other scopes may.

    `callback` is that of its jobs that name none."""

    key_id: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    created_ms: int
    callback: Callback | None = None

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes


def new_key(name: str, scopes: Iterable[Scope], *, now_ms: int, callback: Callback | None = None) -> tuple[ApiKey, str]:
    """A fresh key, and its text, which is shown once and never stored; ValueError on a bad name or scope."""
    wanted = frozenset(scopes)
    if not wanted or not wanted <= frozenset(SCOPES):
        raise ValueError(f"scopes are one or more of: {', '.join(SCOPES)}")
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise ValueError("a key's name is 1 to 64 printable characters")
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))
    secret = secrets.token_urlsafe(32)
    ordered = tuple(scope for scope in SCOPES if scope in wanted)
    return ApiKey(key_id, name, ordered, digest_of(secret), now_ms, callback), f"{PREFIX}{key_id}_{secret}"


def admin_key(text: str) -> ApiKey:
    """The key that the configuration gives; ValueError if the text is none."""
    parts = parse_key(text)
    if parts is None:
        raise ValueError("not an API key; write gwk_<id>_<secret>, the secret 16 characters or more")
    return ApiKey(parts[0], "configuration", ("admin",), digest_of(parts[1]), 0)


def parse_key(text: str) -> tuple[str, str] | None:
    """A key's id and secret, None if the text is no key."""
    found = _TEXT.match(text)
    return (found[1], found[2]) if found else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_right(key: ApiKey | None, secret: str) -> bool:
    """Whether the secret is the key's; takes as long where there is no such key."""
    return hmac.compare_digest(digest_of(secret), _NO_DIGEST if key is None else key.digest)

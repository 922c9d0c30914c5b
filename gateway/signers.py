"""The keys that sign where a target or callback has no secret: the configured ones, or the installation's own."""

from __future__ import annotations

from functools import lru_cache

from gateway.secret import Secret
from gateway.settings import GatewaySettings
from gateway.signing import SigningKey
from gateway.store import Store


def signing_keys(own: GatewaySettings, store: Store) -> tuple[SigningKey, ...]:
    """The present key first, then those that receivers may still know instead."""
    kept = (own.signing_key,) if own.signing_key is not None else store.signing_keys
    return _parsed(kept, own.previous_signing_keys)


@lru_cache(maxsize=64)
def _parsed(kept: tuple[Secret, ...], previous: tuple[Secret, ...]) -> tuple[SigningKey, ...]:
    return tuple(SigningKey.parse(text) for key in (*kept, *previous) if (text := key.reveal()))

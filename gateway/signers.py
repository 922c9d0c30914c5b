"""The keys that sign where a target or callback has no secret: the configured ones, or the installation's own."""

from __future__ import annotations

from functools import lru_cache

from gateway.settings import GatewaySettings
from gateway.signing import SigningKey
from gateway.store import Store


def signing_keys(own: GatewaySettings, store: Store) -> tuple[SigningKey, ...]:
    """The present key first, then those that receivers may still know instead."""
    kept = (own.signing_key,) if own.signing_key is not None else store.signing_keys
    texts = (key.reveal() for key in (*kept, *own.previous_signing_keys))
    return tuple(_parsed(text) for text in texts if text)


@lru_cache(maxsize=64)
def _parsed(text: str) -> SigningKey:
    return SigningKey.parse(text)

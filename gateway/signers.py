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


class Signers:
    """The same for who asks at every attempt: looked up anew only where they have changed."""

    def __init__(self, own: GatewaySettings, store: Store) -> None:
        self._own = own
        self._store = store
        self._kept: tuple[Secret, ...] | None = None
        self._keys: tuple[SigningKey, ...] = ()

    def __call__(self) -> tuple[SigningKey, ...]:
        kept = self._store.signing_keys
        if kept is not self._kept:
            self._kept, self._keys = kept, signing_keys(self._own, self._store)
        return self._keys


@lru_cache(maxsize=64)
def _parsed(kept: tuple[Secret, ...], previous: tuple[Secret, ...]) -> tuple[SigningKey, ...]:
    return tuple(SigningKey.parse(text) for key in (*kept, *previous) if (text := key.reveal()))

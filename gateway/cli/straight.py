"""A gateway inside of the command, over the Redis of this directory: the same API, without a socket."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator

import msgspec

from gateway.api import create_app
from gateway.cli.environment import load_settings, redis_url, saying_where, with_redis
from gateway.cli.inside import InsideTransport
from gateway.client import AsyncGateway
from gateway.opening import make_store
from gateway.registry import Registry
from gateway.secret import Secret
from gateway.settings import Settings

_KEY_ID = "cli"
"""Whose idempotency keys a command's are."""


@contextlib.asynccontextmanager
async def opened(*, signs: bool = False) -> AsyncIterator[AsyncGateway]:
    """A client of that gateway; unless it `signs`, secrets of the configuration may be missing.

    Raises ConfigError, or StoreError where Redis is away or holds other data.
    """
    key = f"gwk_{_KEY_ID}_{secrets.token_urlsafe(32)}"
    settings = _with_key(with_redis(load_settings(secrets_required=signs)), key)
    registry = Registry.build(settings)
    store = make_store(settings, redis_url(settings), flows=registry.flows)
    try:
        with saying_where():
            await store.configure()
        app = create_app(settings, store, registry)
        transport = InsideTransport(app)
        client = AsyncGateway("http://gateway.localhost", key=key, transport=transport)
        async with app.router.lifespan_context(app), client as gateway:
            yield gateway
    finally:
        await store.aclose()


def _with_key(settings: Settings, key: str) -> Settings:
    own = msgspec.structs.replace(settings.gateway, api_key=Secret(key))
    return msgspec.structs.replace(settings, gateway=own)

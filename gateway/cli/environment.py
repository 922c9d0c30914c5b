"""What every command starts from: the settings of this directory, and which Redis they mean."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from gateway.errors import ConfigError
from gateway.logs import configure_logging
from gateway.opening import make_store
from gateway.secret import Secret
from gateway.settings import Settings, load
from gateway.settings.environment import IMPORTS
from gateway.settings.origins import origins
from gateway.store import Store
from gateway.store.embedded import find

T = TypeVar("T")

Imports = Annotated[
    list[str] | None, typer.Option("--import", help="A module whose @gateway.target functions are targets; repeatable.")
]


def load_settings(imports: Sequence[str] | None = None) -> Settings:
    """The settings of the environment and the working directory, logging set up; raises ConfigError.

    `imports` join those of the environment, where the processes that this one starts find them as well.
    """
    if imports:
        os.environ[IMPORTS] = ",".join((*filter(None, [os.environ.get(IMPORTS)]), *imports))
    settings = load(os.environ, Path.cwd())
    configure_logging(settings.gateway)
    return settings


def where_from() -> dict[tuple[str, str], str]:
    """Where each setting of this directory comes from, by section and key."""
    return origins(os.environ, Path.cwd())


def with_redis(settings: Settings) -> Settings:
    """The settings with a Redis: the configured one, else the embedded one that runs in this folder."""
    if settings.redis_url is not None:
        return settings
    url = find()
    if url is None:
        raise ConfigError(
            "environment: GATEWAY_REDIS_URL",
            "not set, and no embedded server runs in this folder; set it, or start `gateway up` here first "
            "(commands that take --url need no Redis)",
        )
    return msgspec.structs.replace(settings, redis_url=Secret(url))


def redis_url(settings: Settings) -> str:
    """The URL that `with_redis` found."""
    assert settings.redis_url is not None
    return settings.redis_url.reveal()


def with_store(work: Callable[[Store], Awaitable[T]], settings: Settings | None = None) -> T:
    """What the work brings, with the store of `settings`, or else of this directory; raises GatewayError."""
    settings = with_redis(settings or load_settings())

    async def run() -> T:
        store = make_store(settings, redis_url(settings))
        try:
            await store.configure()
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())

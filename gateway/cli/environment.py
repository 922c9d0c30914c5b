"""What every command starts from: the settings of this directory, and which Redis they mean."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import structlog
import typer

from gateway.errors import ConfigError, StoreUnavailable
from gateway.logs import configure_logging
from gateway.opening import make_store
from gateway.redis_url import parse_redis_url
from gateway.secret import Secret
from gateway.settings import Settings, load
from gateway.settings.environment import CONFIG, IMPORTS, redis_variable
from gateway.settings.origins import origins
from gateway.store import Store
from gateway.store.embedded import DATA_DIR, find
from gateway.supervisor import follow_supervisor

log = structlog.get_logger(__name__)

T = TypeVar("T")

Imports = Annotated[
    list[str] | None, typer.Option("--import", help="A module whose @gateway.target functions are targets; repeatable.")
]


def load_settings(imports: Sequence[str] | None = None, *, secrets_required: bool = True) -> Settings:
    """The settings of the environment and the working directory; raises ConfigError.

    `imports` join those of the environment, where the processes that this one starts find them as well. Of the log
    only warnings and worse are shown: a command says itself what it did. Only one that neither serves nor signs may do
    without the secrets that it finds missing.
    """
    settings = _load(imports, secrets_required=secrets_required)
    quiet = settings.gateway.log_level in ("debug", "info")
    configure_logging(msgspec.structs.replace(settings.gateway, log_level="warning") if quiet else settings.gateway)
    return settings


def load_process_settings(imports: Sequence[str] | None = None) -> Settings:
    """As `load_settings`, for what serves until it is stopped: it logs as it is configured to."""
    settings = _load(imports)
    configure_logging(settings.gateway)
    return settings


def open_process(imports: Sequence[str] | None) -> Settings:
    """The settings of a process that may be a supervisor's child, with a Redis, which its log names unless the
    supervisor's has."""
    supervised = follow_supervisor(os.environ)
    settings = load_process_settings(imports)
    with_one = with_redis(settings)
    if not supervised:
        tell_redis(settings)
    return with_one


def _load(imports: Sequence[str] | None, *, secrets_required: bool = True) -> Settings:
    hand_on(imports or ())
    return load(os.environ, Path.cwd(), secrets_required=secrets_required)


def read_instead(file: Path | None) -> None:
    """Has whatever is loaded from now on read this file, if one is given."""
    if file is not None:
        os.environ[CONFIG] = str(file)


def hand_on(imports: Sequence[str]) -> None:
    """Has these join the modules of the environment, where this process finds them, and those that it starts."""
    if imports:
        os.environ[IMPORTS] = ",".join((*filter(None, [os.environ.get(IMPORTS)]), *imports))


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
            f"not set, and no embedded server runs in {Path.cwd()}; set it, start `gateway up` here, "
            "or go where it runs (commands that take --url need no Redis)",
        )
    return msgspec.structs.replace(settings, redis_url=Secret(url))


def redis_url(settings: Settings) -> str:
    """The URL that `with_redis` found."""
    assert settings.redis_url is not None
    return settings.redis_url.reveal()


@contextlib.contextmanager
def saying_where() -> Iterator[None]:
    """Has the error of a Redis that is away end with where its URL is from."""
    try:
        yield
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error} {redis_origin()}") from error


def redis_origin() -> str:
    """Where the URL of the Redis that commands mean is from, never the URL: a password may be in it."""
    return f"(from {redis_variable(os.environ) or 'the embedded server of this folder'})"


def tell_redis(settings: Settings, data_dir: Path = DATA_DIR) -> None:
    """Logs which Redis is in use, and what named it; `settings` as they were loaded, without an embedded server's."""
    if settings.redis_url is None:
        log.info("data in the embedded Valkey", folder=str(data_dir.absolute()))
    else:
        log.info("Redis in use", at=parse_redis_url(redis_url(settings)).shown, source=redis_variable(os.environ))


def with_store(work: Callable[[Store], Awaitable[T]], settings: Settings | None = None) -> T:
    """What the work brings, with the store of `settings`, or else of this directory; raises GatewayError."""
    settings = with_redis(settings or load_settings())

    async def run() -> T:
        store = make_store(settings, redis_url(settings))
        try:
            with saying_where():
                await store.configure()
                return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())

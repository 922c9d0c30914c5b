"""What every command starts from: the settings of this directory, and which Redis they mean."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from gateway.errors import ConfigError
from gateway.logs import configure_logging
from gateway.secret import Secret
from gateway.settings import Settings, load
from gateway.store.embedded import find


def load_settings() -> Settings:
    """The settings of the environment and the working directory, logging set up; raises ConfigError."""
    settings = load(os.environ, Path.cwd())
    configure_logging(settings.gateway)
    return settings


def with_redis(settings: Settings) -> Settings:
    """The settings with a Redis: the configured one, else the embedded one that runs in this folder."""
    if settings.redis_url is not None:
        return settings
    url = find()
    if url is None:
        raise ConfigError(
            "environment: GATEWAY_REDIS_URL",
            "not set, and no embedded server runs in this folder; set it, or start `gateway up` here first",
        )
    return msgspec.structs.replace(settings, redis_url=Secret(url))


def redis_url(settings: Settings) -> str:
    """The URL that `with_redis` found."""
    assert settings.redis_url is not None
    return settings.redis_url.reveal()

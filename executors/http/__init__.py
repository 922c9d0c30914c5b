"""The `http` executor: an attempt is one signed request, and the answer's status says how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway import Executor, Settings, hookimpl, signing

from .auth import Basic, Bearer, HmacHeader
from .config import HttpConfig, PreviousSecret
from .executor import HttpExecutor

__all__ = [
    "Basic",
    "Bearer",
    "HmacHeader",
    "HttpConfig",
    "HttpExecutor",
    "PreviousSecret",
    "register_executors",
]


@hookimpl
def register_executors(settings: Settings) -> Iterable[Executor[Any]]:
    """Offers the `http` executor with the installation's signing keys."""
    gateway = settings.gateway
    keys = [key for key in (gateway.signing_key, *gateway.previous_signing_keys) if key is not None]
    return [HttpExecutor([signing.SigningKey.parse(key.reveal()) for key in keys])]

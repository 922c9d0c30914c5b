"""The `http` executor: an attempt is one signed request, and the answer's status says how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway import Executor, hookimpl

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
def register_executors(settings: object) -> Iterable[Executor[Any]]:
    """Offers the `http` executor."""
    return [HttpExecutor()]

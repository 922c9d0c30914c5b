"""The `command` executor: runs a program, payload on its standard input, result from its standard output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway import Executor, hookimpl

from .config import CommandConfig
from .executor import CommandExecutor

__all__ = ["CommandConfig", "CommandExecutor", "register_executors"]


@hookimpl
def register_executors(settings: object) -> Iterable[Executor[Any]]:
    """Offers the `command` executor."""
    return [CommandExecutor()]

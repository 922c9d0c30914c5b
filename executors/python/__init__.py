"""The `python` executor: calls a function of the user's own code with the job's payload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway import Executor, Settings, hookimpl

from .config import PythonConfig
from .executor import PythonExecutor

__all__ = ["PythonConfig", "PythonExecutor", "register_executors"]


@hookimpl
def register_executors(settings: Settings | None) -> Iterable[Executor[Any]]:
    """Offers the `python` executor."""
    return [PythonExecutor(modules=settings.imports if settings is not None else ())]

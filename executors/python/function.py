"""Finding the function that a target names, and how it wants to be called."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Function:
    """A callable that was found: whether calling it gives an awaitable, and whether it wants the attempt as well."""

    call: Callable[..., Any]
    is_async: bool
    takes_context: bool


def find(place: str) -> Function:
    """Imports what `module:attribute` names; raises ValueError that says which part cannot be had."""
    module_name, _, path = place.partition(":")
    found: Any = _import(module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ValueError(f"{place}: module {module_name!r} has no attribute {path!r}") from None
    if not callable(found):
        raise ValueError(f"{place}: {path!r} is not callable but of type {type(found).__name__}")
    return Function(found, _is_async(found), _takes_context(found, place))


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and f"{name}.".startswith(f"{exc.name}."):
            raise ValueError(f"no module named {exc.name!r} in {os.getcwd()} or on the Python path") from exc
        raise ValueError(f"module {name!r} cannot be imported: {exc}") from exc
    except (Exception, SystemExit) as exc:  # whatever a user's module does when it is imported
        raise ValueError(f"module {name!r} cannot be imported: {type(exc).__name__}: {exc}") from exc


def _is_async(found: Callable[..., Any]) -> bool:
    while isinstance(found, partial):
        found = found.func
    return inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(type(found).__call__)


def _takes_context(found: Callable[..., Any], place: str) -> bool:
    try:
        signature = inspect.signature(found)
    except ValueError:  # some built-in functions have none
        return False
    positional = [parameter for parameter in signature.parameters.values() if parameter.kind in _POSITIONAL]
    required = [parameter for parameter in positional if parameter.default is parameter.empty]
    takes = len(required) > 1 or (len(positional) > 1 and positional[1].name == "context")
    try:
        signature.bind(*((None, None) if takes else (None,)))
    except TypeError as exc:
        raise ValueError(f"{place}{signature} cannot be called as f(payload) or f(payload, context): {exc}") from exc
    return takes

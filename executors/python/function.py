"""Finding the function that a target names, and how it wants to be called."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from .arguments import Read, make_reader
from .parameters import Wants, read_parameters


@dataclass(frozen=True, slots=True)
class Function:
    """A callable that was found: `call` takes what `read` makes of the payload, and what it `wants` beside that.

    `read` None: the parsed payload as it is. `is_async`: whether calling it gives an awaitable.
    """

    call: Callable[..., Any]
    is_async: bool
    wants: Wants
    read: Read | None


def find(place: str) -> Function:
    """Imports what `module:attribute` names; raises ValueError that says which part cannot be had."""
    module_name, _, path = place.partition(":")
    found: Any = import_module(module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = difflib.get_close_matches(name, [each for each in dir(found) if not each.startswith("_")], n=1)
            mend = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{place}: module {module_name!r} has no attribute {path!r}{mend}") from None
    if not callable(found):
        raise ValueError(f"{place}: {path!r} is not callable but of type {type(found).__name__}")
    parameters = read_parameters(found, place)
    return Function(parameters.call, _is_async(found), parameters.wants, make_reader(parameters, place))


def make_working_directory_importable() -> None:
    """Has modules of the working directory found, as `python -m` does."""
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def import_module(name: str) -> ModuleType:
    """The module; raises ValueError that says why it cannot be imported."""
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

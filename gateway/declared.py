"""Targets and lifespans that a module declares by decorating its own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_TARGETS = "__gateway_targets__"
_LIFESPAN = "__gateway_lifespan__"


@dataclass(frozen=True, slots=True)
class Declared:
    """A target as its decorator gave it: `table` is what would stand in `[targets.<name>]`, without the callable."""

    name: str
    table: Mapping[str, Any]


def target(
    name: str,
    *,
    lane: str | None = None,
    timeout: str | float | None = None,
    max_attempts: int | None = None,
    retry: Mapping[str, Any] | None = None,
    limit: Mapping[str, Any] | None = None,
    ordered: bool | None = None,
    callback: Mapping[str, Any] | None = None,
    isolation: Literal["thread", "process"] | None = None,
    heartbeat: str | float | None = None,
    processes: int | None = None,
    recycle_after: int | None = None,
) -> Callable[[F], F]:
    """Makes the function the target `name` of every process that imports its module (`imports`, `--import`).

    The function itself stays as it is. The arguments are the keys of a target's table in `gateway.toml` and mean the
    same; `max_attempts` stands for the one of `retry`. What is wrong with them stops start-up and names the function.
    """
    if not isinstance(name, str):
        raise TypeError('@gateway.target takes the name first: @gateway.target("resize")')
    if max_attempts is not None:
        retry = {**(retry or {}), "max_attempts": max_attempts}
    given = {
        "lane": lane,
        "timeout": timeout,
        "retry": None if retry is None else dict(retry),
        "limit": None if limit is None else dict(limit),
        "ordered": ordered,
        "callback": None if callback is None else dict(callback),
        "isolation": isolation,
        "heartbeat": heartbeat,
        "processes": processes,
        "recycle_after": recycle_after,
    }
    declared = Declared(name, {key: value for key, value in given.items() if value is not None})

    def declare(function: F) -> F:
        setattr(function, _TARGETS, (declared, *targets_of(function)))
        return function

    return declare


def lifespan(function: F) -> F:
    """Marks a generator function, async or not, that runs around all calls of the functions of its module.

    What stands before its `yield` runs once before the first call, what follows after the last one, in each process
    that runs them. It may yield a mapping, which becomes part of `Context.state`.
    """
    setattr(function, _LIFESPAN, True)
    return function


def targets_of(function: object) -> tuple[Declared, ...]:
    """The targets that the function was declared to be."""
    found: tuple[Declared, ...] = getattr(function, _TARGETS, ())
    return found


def declared_in(module: ModuleType) -> Iterator[tuple[str, Declared]]:
    """Each target of a module with the attribute that it lies at."""
    for attribute, value in list(vars(module).items()):
        if callable(value) and not isinstance(value, type) and _TARGETS in getattr(value, "__dict__", ()):
            for declared in targets_of(value):
                yield attribute, declared


def lifespans_in(module: ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each lifespan that was defined in the module, with its name; those that it only imports are another's."""
    for attribute, value in list(vars(module).items()):
        marked = callable(value) and _LIFESPAN in getattr(value, "__dict__", ())
        if marked and getattr(value, "__module__", module.__name__) == module.__name__:
            yield attribute, value

"""How a function's parameters are filled: with the payload whole, or by its keys, and with the attempt's context."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway import Attempt, Context

Kind = Literal["whole", "keys", "nothing"]
Wants = Literal["", "context", "attempt"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Key:
    """A parameter that a key of the payload fills."""

    name: str
    annotation: Any
    required: bool


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a function takes: `call` is the function as f(payload), or f(payload, context) if it `wants` one.

    `kind` says what it calls the payload: the `whole`, of type `annotation`; a mapping with one of its `keys` for each
    parameter (`rest`: any others too); or `nothing`, where it does not care.
    """

    call: Callable[..., Any]
    kind: Kind
    wants: Wants = ""
    annotation: Any = Any
    keys: tuple[Key, ...] = ()
    rest: bool = False


def read_parameters(found: Callable[..., Any], place: str) -> Parameters:
    """How to call what lies at `place`; raises ValueError where a payload cannot be its arguments."""
    try:
        signature = inspect.signature(found)
    except ValueError:  # some built-in functions have none
        return Parameters(found, "whole")
    hints = _hints(found, signature, place)
    wants, context = _context(signature, hints)
    others = [parameter for parameter in signature.parameters.values() if parameter.name != context]
    if not others:
        return Parameters(_without_payload(found, context), "nothing", wants)
    if _is_by_keys(others, hints):
        return _by_keys(found, others, hints, wants=wants, context=context)
    try:
        call = _as_whole(found, signature, others[0], context)
        if not context and len(_needed(others)) > 1:
            wants = "context"
        if call is found:
            signature.bind(*((None, None) if wants else (None,)))
    except TypeError as exc:
        raise ValueError(
            f"{place}{signature} cannot be called as f(payload) or f(payload, context): {exc}; for a function that "
            "takes the payload's keys, annotate every parameter"
        ) from exc
    annotation = Any if others[0].kind is inspect.Parameter.VAR_POSITIONAL else hints.get(others[0].name, Any)
    return Parameters(call, "whole", wants, annotation)


def _hints(found: Callable[..., Any], signature: inspect.Signature, place: str) -> dict[str, Any]:
    """The annotations of the parameters, those that are texts read; what it returns is no concern of ours."""
    written = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not parameter.empty
    }
    inner: Any = inspect.unwrap(found)
    while isinstance(inner, partial):
        inner = inspect.unwrap(inner.func)
    scope = getattr(inner, "__globals__", None) or getattr(getattr(inner, "__call__", None), "__globals__", {})  # noqa: B004
    try:
        return get_type_hints(SimpleNamespace(__annotations__=written), globalns=scope, include_extras=True)
    except Exception as exc:  # whatever stands there
        raise ValueError(
            f"{place}: its annotations cannot be read: {exc}; import what they name when the module runs, not only "
            "under TYPE_CHECKING"
        ) from exc


def _context(signature: inspect.Signature, hints: Mapping[str, Any]) -> tuple[Wants, str]:
    """Whether it wants a Context or the Attempt, and the name of that parameter."""
    for name in signature.parameters:
        kinds = {get_origin(kind) or kind for kind in _alternatives(hints.get(name))}
        if Attempt in kinds:
            return "attempt", name
        if Context in kinds or name == "context":
            return "context", name
    return "", ""


def _alternatives(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _alternatives(part)
    else:
        yield kind


def _is_by_keys(others: list[inspect.Parameter], hints: Mapping[str, Any]) -> bool:
    """Every parameter is annotated, and there is more than one, or one that cannot be given by its place; the first
    is not called `payload`."""
    named = [parameter for parameter in others if parameter.kind in _NAMED]
    rest = [parameter for parameter in others if parameter.kind is inspect.Parameter.VAR_KEYWORD]
    if len(named) + len(rest) != len(others) or not named or named[0].name == "payload":
        return False
    if not all(parameter.name in hints for parameter in named):
        return False
    return len(named) > 1 or bool(rest) or named[0].kind is inspect.Parameter.KEYWORD_ONLY


def _by_keys(
    found: Callable[..., Any],
    others: list[inspect.Parameter],
    hints: Mapping[str, Any],
    *,
    wants: Wants,
    context: str,
) -> Parameters:
    keys = tuple(
        Key(parameter.name, hints[parameter.name], parameter.default is parameter.empty)
        for parameter in others
        if parameter.kind in _NAMED
    )
    rest = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in others)

    def call(arguments: dict[str, Any]) -> Any:
        return found(**arguments)

    def call_with_context(arguments: dict[str, Any], about: object) -> Any:
        return found(**arguments, **{context: about})

    return Parameters(call_with_context if wants else call, "keys", wants, keys=keys, rest=rest)


def _without_payload(found: Callable[..., Any], context: str) -> Callable[..., Any]:
    def call(payload: object) -> Any:
        return found()

    def call_with_context(payload: object, about: object) -> Any:
        return found(**{context: about})

    return call_with_context if context else call


def _as_whole(
    found: Callable[..., Any], signature: inspect.Signature, first: inspect.Parameter, context: str
) -> Callable[..., Any]:
    """The function itself, unless its context stands elsewhere than second; raises TypeError if it cannot be called."""
    if not context or (
        list(signature.parameters)[1:2] == [context] and signature.parameters[context].kind in _POSITIONAL
    ):
        return found
    if first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        signature.bind(**{first.name: None, context: None})
        return lambda payload, about: found(**{first.name: payload, context: about})
    signature.bind(None, **{context: None})
    return lambda payload, about: found(payload, **{context: about})


def _needed(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [each for each in parameters if each.kind in _POSITIONAL and each.default is each.empty]

"""Says what in a value is not JSON: its type, where it stands, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

import msgspec

Fits = Callable[[Any], bool]

LEVELS = 32
"""How deep the place is looked for; what lies deeper is told as the value around it."""

KEY_CHARACTERS = 64

_MENDS: tuple[tuple[Any, str], ...] = (
    (Decimal, "str or float"),
    (Set, "list"),
    ((bytes, bytearray, memoryview), "str"),
    (float, "None"),
)
_ELSE = "dict, list, str, int, float, bool or None"


def describe_fault(value: Any, fits: Fits) -> str:
    """`decimal.Decimal at $.total, which is not JSON; return str or float`: of types only, since values may be secret.

    For a value that does not fit; `fits` says it of each of its parts.
    """
    place, path = value, "$"
    for _ in range(LEVELS):
        inner = next(((step, item) for step, item in _parts(place) if not fits(item)), None)
        if inner is None:
            break
        path, place = path + inner[0], inner[1]
    where = f" at {path}" if path != "$" else ""
    if isinstance(place, dict) and (keys := [key for key in place if not fits({key: None})]):
        return f"a dict{where} with a key of type {_name(keys[0])}, which is not JSON; make its keys str"
    return f"{_what(place)}{where}, which is not JSON; return {_mend(place)}"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value is made of, each with its step of the path."""
    if isinstance(value, dict):
        yield from ((f".{key[:KEY_CHARACTERS]}" if isinstance(key, str) else "[…]", at) for key, at in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{at}]", item) for at, item in enumerate(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{each.name}", getattr(value, each.name, None)) for each in fields(value))


def _what(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN or an infinity"
    return f"the class {value.__qualname__}" if isinstance(value, type) else _name(value)


def _mend(value: Any) -> str:
    if isinstance(value, (dict, list, tuple)):
        return "one that is not nested so deep, nor inside itself"
    if isinstance(value, str):
        return "text without lone surrogates"
    return next((mend for kind, mend in _MENDS if isinstance(value, kind)), _ELSE)


def _name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

"""Tables (parsed TOML or JSON) into typed values; what does not fit is a ConfigError that names its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from gateway.durations import Duration, parse_duration
from gateway.errors import ConfigError, SecretMissing
from gateway.limits import KeyLimits, Limits, Rate
from gateway.secret import Secret
from gateway.settings.checks import FieldFault
from gateway.settings.secrets import ConfigFile, SecretSource, UnreadSecret, read_path, read_secret
from gateway.spelling import mend_name

T = TypeVar("T")

TOP_LEVEL = (
    "plugins",
    "imports",
    "gateway",
    "egress",
    "lanes",
    "retention",
    "notices",
    "targets",
    "triggers",
    "schedules",
)
"""The keys of the file itself; below a `[section]` TOML takes them for keys of that section."""

_EXAMPLES = {Limits: '{ rate = "5/s", concurrency = 2 }', KeyLimits: '{ rate = "1/s", concurrency = 1 }'}
_AT = re.compile(r" - at `\$([^`]*)`\Z")
_COMPARED = 100
"""Of a table's own keys; a request's may have any number, and comparing takes its time."""
_STEP = re.compile(r"\.([^.\[]+)|(\[)(?:\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`\Z")


def decode(
    table: object, kind: type[T], place: str, *, secrets: SecretSource | None = None, beside: Sequence[str] = ()
) -> T:
    """`table` as a `kind` (a msgspec Struct), with Duration and Secret fields read from what stands for them.

    `place` is where the table lies (`gateway.toml: targets.resize`; `""` for a request's body). A key that the
    Struct does not have is an error even if it would let it pass; `beside` names keys that belong to the same
    table but were taken out before, for the message. Raises ConfigError, which never shows a secret;
    SecretMissing for one that is named and is not there.
    """
    if isinstance(table, dict):
        for key in table:
            if key not in field_names(kind):
                raise ConfigError(place, _unknown(str(key), [*beside, *field_names(kind)], in_file=bool(place)))
    try:
        return msgspec.convert(table, kind, dec_hook=partial(_read_custom, secrets))
    except msgspec.ValidationError as exc:
        raise _located(exc, kind, place, beside) from exc


def field_names(kind: Any) -> tuple[str, ...]:
    """The keys of a Struct, as they are written."""
    return _field_names(kind)


@cache  # whose type has no place for a type variable
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


def join_place(place: str, path: str) -> str:
    """`gateway.toml` + `plugins` is `gateway.toml: plugins`, and that + `[0]` is `gateway.toml: plugins[0]`."""
    if not place or not path:
        return place or path
    return place + ("" if path.startswith("[") else "." if ": " in place else ": ") + path


def concrete_types(kind: Any) -> Iterator[Any]:
    """The alternatives of a field's type: without Annotated and without None."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from concrete_types(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for part in get_args(kind):
            yield from concrete_types(part)
    elif kind is not type(None):
        yield kind


def is_struct(kind: Any) -> bool:
    """Whether a type is a Struct."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _read_custom(secrets: SecretSource | None, kind: type, value: object) -> object:
    if kind is Duration:
        return parse_duration(value)
    if kind is Secret:
        return read_secret(value, secrets)
    if kind is Rate:
        return Rate(value)
    if kind is ConfigFile:
        return read_path(value, secrets)
    raise TypeError(f"a {kind.__name__} cannot be read from a configuration")


def _located(exc: msgspec.ValidationError, kind: Any, place: str, beside: Sequence[str]) -> ConfigError:
    text = str(exc)
    found = _AT.search(text)
    path = found[1] if found else ""
    message = text[: found.start()] if found else text
    detail = _detail(message, list(_types_at(kind, path)), in_file=bool(place))
    if not path and (missing := _MISSING.match(message)):
        detail += _meant(missing[1], beside)
    if message.startswith("Invalid value "):
        tags = [each.__struct_config__.tag for each in _types_at(kind, path.rpartition(".")[0]) if is_struct(each)]
        detail = f"{_lowered(message)}; write one of: {', '.join(map(str, tags))}"
    path = path.removeprefix(".").replace("[...]", "")
    if isinstance(exc.__cause__, FieldFault):
        path = f"{path}.{exc.__cause__.field}" if path else exc.__cause__.field
    kind_of_fault = SecretMissing if isinstance(exc.__cause__, UnreadSecret) else ConfigError
    return kind_of_fault(join_place(place, path), detail)


def _meant(missing: str, beside: Sequence[str]) -> str:
    near = difflib.get_close_matches(missing, beside[:_COMPARED], n=1, cutoff=0.75)
    return f'; did you mean it by "{near[0]}"?' if near else ""


def _detail(message: str, types: Sequence[Any], *, in_file: bool) -> str:
    if unknown := _UNKNOWN.match(message):
        known = [name for kind in types if is_struct(kind) for name in field_names(kind)]
        return _unknown(unknown[1], known, in_file=in_file)
    if missing := _MISSING.match(message):
        return f'missing key "{missing[1]}"'
    if message.startswith("Invalid enum value"):
        choices = [str(choice) for kind in types if get_origin(kind) is Literal for choice in get_args(kind)]
        return f"{_lowered(message)}; write one of: {', '.join(choices)}"
    if message.startswith("Expected "):
        plain = message.replace("`", "").replace(" | null", "")
        example = next((f" such as {_EXAMPLES[kind]}" for kind in types if kind in _EXAMPLES), "")
        if plain.startswith("Expected array, got ") and in_file:
            mend = "its table in double brackets, [[…]]" if plain.endswith("object") else "it in brackets, [ ]"
            return f"{plain.replace('Expected', 'expected', 1).replace('object', 'a table')}; write {mend}"
        return plain.replace("object", f"a table{example}").replace("Expected", "expected", 1)
    return message


def _lowered(message: str) -> str:
    return f"{message[0].lower()}{message[1:]}".replace("`", "")


def _unknown(key: str, known: Iterable[str], *, in_file: bool) -> str:
    hint = "a top-level key stands above the first [section]; " if in_file and key in TOP_LEVEL else ""
    return f'unknown key "{key}"; {hint}{mend_name(key, known)}'


def _types_at(kind: Any, path: str) -> Iterator[Any]:
    """The types that msgspec's path (`.routes[0].when`) leads to, from `kind`."""
    types = [kind]
    for name, index in _STEP.findall(path):
        types = [part for outer in types for inner in concrete_types(outer) for part in _step(inner, name, index)]
    for outer in types:
        yield from concrete_types(outer)


def _step(kind: Any, name: str, index: str) -> Iterator[Any]:
    if index:
        yield from (part for part in get_args(kind)[-2:] if part is not Ellipsis)
    elif is_struct(kind):
        yield from (field.type for field in msgspec.structs.fields(kind) if field.encode_name == name)

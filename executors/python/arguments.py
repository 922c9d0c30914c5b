"""Payloads into arguments: decoded, and checked against the annotations of the function that gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import orjson

from gateway import Fatal

from .parameters import Parameters

Read = Callable[[bytes], Any]
"""From the payload's bytes to what the function is called with; raises Fatal if they do not fit."""

_LEFT_OUT: Any = object()
_FAULTS_SHOWN = 3


def make_reader(parameters: Parameters, place: str) -> Read | None:
    """How the payload becomes the argument; None where it is the parsed payload as it is.

    Raises ValueError if an annotation is of a type that no JSON can be read into.
    """
    if parameters.kind == "nothing":
        return lambda raw: None
    if parameters.kind == "keys":
        return _read_keys(parameters, place)
    annotation = parameters.annotation
    if annotation in (Any, object):
        return None
    if annotation is bytes:
        return lambda raw: raw
    if _is_pydantic(annotation):
        return _guarded(lambda raw: annotation.model_validate_json(raw or b"null"), place)
    decoder = _decoder(annotation, place)
    return _guarded(lambda raw: decoder.decode(raw or b"null"), place)


def _read_keys(parameters: Parameters, place: str) -> Read:
    names = [key.name for key in parameters.keys]
    fields = [
        (key.name, key.annotation) if key.required else (key.name, key.annotation, _LEFT_OUT) for key in parameters.keys
    ]
    fields.sort(key=len)  # a field without default after one that has one is refused
    model = msgspec.defstruct("Payload", fields, forbid_unknown_fields=not parameters.rest)
    decoder = _decoder(model, place)

    def read(raw: bytes) -> dict[str, Any]:
        raw = raw if raw not in (b"", b"null") else b"{}"
        found = decoder.decode(raw)
        given = {name: value for name in names if (value := getattr(found, name)) is not _LEFT_OUT}
        return {**orjson.loads(raw), **given} if parameters.rest else given

    return _guarded(read, place)


def _guarded(read: Read, place: str) -> Read:
    def guarded(raw: bytes) -> Any:
        try:
            return read(raw)
        except msgspec.ValidationError as exc:
            raise Fatal(f"the payload does not fit {place}: {exc}", type="payload") from None
        except msgspec.DecodeError as exc:
            raise Fatal(f"the payload is not JSON: {exc}", type="payload") from None
        except ValueError as exc:
            raise Fatal(f"the payload does not fit {place}: {_faults(exc)}", type="payload") from None

    return guarded


def _decoder(annotation: Any, place: str) -> msgspec.json.Decoder[Any]:
    try:
        for kind in _custom_types(msgspec.inspect.type_info(annotation)):
            if not _is_pydantic(kind):
                raise TypeError(f"{kind.__qualname__} is no type that JSON can be read into")
        return msgspec.json.Decoder(annotation, dec_hook=_read_pydantic)
    except TypeError as exc:
        raise ValueError(
            f"{place}: a payload cannot be read as annotated: {exc}; use JSON's types, dataclasses, TypedDicts, "
            "msgspec Structs or pydantic models"
        ) from exc


def _custom_types(info: Any) -> Iterator[Any]:
    """The classes, wherever they stand in a type, that msgspec leaves to the hook."""
    seen: set[int] = set()
    waiting = [info]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, msgspec.inspect.CustomType):
            yield each.cls
        elif isinstance(each, (tuple, list)):
            waiting += each
        elif isinstance(each, (msgspec.inspect.Type, msgspec.inspect.Field)):
            waiting += [getattr(each, name) for name in each.__struct_fields__ if name != "cls"]


def _is_pydantic(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate_json")


def _read_pydantic(kind: Any, value: Any) -> Any:
    try:
        return kind.model_validate_json(msgspec.json.encode(value))
    except ValueError as exc:
        raise ValueError(_faults(exc)) from None


def _faults(exc: ValueError) -> str:
    """What pydantic found, by place and without the values, which are the payload's."""
    tell = getattr(exc, "errors", None)
    if tell is None:
        return str(exc)
    faults = tell(include_url=False, include_input=False, include_context=False)
    shown = [f"{fault['msg']} - at `$.{'.'.join(map(str, fault['loc']))}`" for fault in faults[:_FAULTS_SHOWN]]
    more = len(faults) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")

"""JSON into a SubmitBody: one fast decode, and where that fails a slow pass that finds every fault."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec

from gateway.durations import Duration, parse_duration
from gateway.errors import Fault, InvalidRequest
from gateway.limits import Rate
from gateway.nesting import MAX_DEPTH, too_deep
from gateway.settings.decoding import concrete_types, is_struct
from gateway.spelling import mend_name
from gateway.submission.body import SubmitBody
from gateway.submission.faults import Faults, step

S = TypeVar("S", bound=msgspec.Struct)

_AT = re.compile(r" - at `[^`]*`\Z")
_TRUNCATED = "Input data was truncated"
"""What the library also says of half a surrogate pair near the end."""

_MISSING = object()
_TIME = 'not a time; write RFC 3339 with an offset ("2026-01-31T12:00:00Z"), or Unix seconds'


def _read_custom(kind: type, value: object) -> Duration | Rate:
    if kind is Duration:
        return parse_duration(value)
    if kind is Rate:
        return Rate(value)
    raise TypeError(f"a {kind.__name__} cannot be read from JSON")


_decoder = msgspec.json.Decoder(SubmitBody, dec_hook=_read_custom)


def check_text(text: bytes) -> None:
    """Raises InvalidRequest (400) if a body is not UTF-8, or is nested deeper than a parser should follow."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as exc:
            raise InvalidRequest(f"the body is not UTF-8 (byte {exc.start})", status=400) from exc
    if too_deep(text):
        raise InvalidRequest(f"the body is nested deeper than {MAX_DEPTH} levels", status=400)


def decode_body(text: bytes, faults: Faults) -> SubmitBody:
    """The body, less the fields that are wrong, which `faults` then names; `text` has passed `check_text`.

    Raises InvalidRequest if it is no JSON (400) or no object (422).
    """
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:
        return decode_struct(text, SubmitBody, faults)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _not_json(text, exc) from exc


def decode_struct(text: bytes, kind: type[S], faults: Faults) -> S:
    """As `decode_body`, for any Struct whose fields all have defaults; slower, since it looks at them one by one."""
    body = _read_struct(decode_json(text, dict[str, msgspec.Raw]), kind, "", faults)
    return kind() if body is None else cast("S", body)


def decode_whole(text: bytes, kind: type[S]) -> S:
    """As `decode_struct`, for any Struct; raises InvalidRequest (422) with every fault."""
    faults = Faults()
    body = _read_struct(decode_json(text, dict[str, msgspec.Raw]), kind, "", faults)
    faults.raise_any()
    return cast("S", body)


def decode_json(text: bytes, kind: Any) -> Any:
    """`text` as a `kind`; InvalidRequest if it is no JSON (400) or of another kind (422)."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as exc:
        _check_syntax(text)  # a wrong kind is found before a syntax error further on
        raise InvalidRequest("the body is of the wrong kind", faults=[Fault("", _plain(exc))]) from exc
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _not_json(text, exc) from exc


def _check_syntax(text: bytes) -> None:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _not_json(text, exc) from exc


def _not_json(text: bytes, exc: msgspec.DecodeError | RecursionError) -> InvalidRequest:
    if isinstance(exc, RecursionError):
        return InvalidRequest(f"the body is nested deeper than {MAX_DEPTH} levels", status=400)
    detail = str(exc).removeprefix("JSON is malformed: ").replace(_TRUNCATED, "it ends too early")
    if any(each in str(exc) for each in (_TRUNCATED, "hex escape", "surrogate")) and _is_grammatical(text):
        detail = (
            "a string has half of a surrogate pair (\\ud800 to \\udfff); write the character itself, or both halves"
        )
    return InvalidRequest(f"the body is not JSON: {detail}", status=400)


def _is_grammatical(text: bytes) -> bool:
    """Whether it keeps to the grammar of RFC 8259, which lets half of a surrogate pair stand alone."""
    try:
        json.loads(text.decode())
    except ValueError:
        return False
    return True


def _read_struct(fields: dict[str, msgspec.Raw], kind: Any, pointer: str, faults: Faults) -> Any:
    """The Struct, or None where a field that it must have is missing or wrong."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values = {}
    for name, raw in fields.items():
        at = step(pointer, name)
        if name not in known:
            faults.add(at, f'unknown field "{name[:64]}"; {mend_name(name[:64], known)}')
        elif (value := _read_value(raw, known[name].type, at, faults)) is not _MISSING:
            values[name] = value
    lacking = [name for name, field in known.items() if field.required and name not in values]
    for name in lacking:
        if name not in fields:
            faults.add(step(pointer, name), "is missing")
    if lacking:
        return None
    try:
        return kind(**values)
    except ValueError as exc:
        faults.add(pointer, str(exc))
        return None


def _read_value(raw: msgspec.Raw, kind: Any, pointer: str, faults: Faults) -> Any:
    kinds = list(concrete_types(kind))
    text = bytes(raw)
    if text[:1] == b"{" and (struct := next((each for each in kinds if is_struct(each)), None)):
        return _read_struct(msgspec.json.decode(text, type=dict[str, msgspec.Raw]), struct, pointer, faults)
    if text[:1] == b"[" and (items := next((each for each in kinds if get_origin(each) is tuple), None)):
        raws = msgspec.json.decode(text, type=list[msgspec.Raw])
        kind_of_item = get_args(items)[0]
        read = [_read_value(each, kind_of_item, step(pointer, at), faults) for at, each in enumerate(raws)]
        return tuple(value for value in read if value is not _MISSING)
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_read_custom)
    except msgspec.ValidationError as exc:
        faults.add(pointer, _TIME if datetime in kinds else _plain(exc) + _choices(exc, kinds))
        return _MISSING


def _choices(exc: msgspec.ValidationError, kinds: list[Any]) -> str:
    if not str(exc).startswith("Invalid enum value"):
        return ""
    choices = [str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    return f"; write one of: {', '.join(choices)}"


def _plain(exc: msgspec.ValidationError) -> str:
    """The library's message without its own path and back-quotes, in the words of JSON."""
    text = _AT.sub("", str(exc)).replace("`", "").replace(" | null", "")
    return f"{text[:1].lower()}{text[1:]}"

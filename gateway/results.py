"""Results and errors as the JSON texts that a record keeps: capped, and never a silent null for a NaN."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson

from gateway.errors import AttemptError, Fatal
from gateway.not_json import describe_fault
from gateway.redaction import hide_text, hide_within

RESULT_BYTES = 65536
MESSAGE_CHARACTERS = 1024
DETAILS_BYTES = 4096
PROGRESS_BYTES = 1024
FRAMES = 6
_HOME = Path(__file__).parent
OWN_CODE = tuple(
    f"{folder}{os.sep}"
    for folder in (_HOME, *(_HOME.parent / part for part in ("executors", "plugins") if not (_HOME / part).is_dir()))
)
"""Where the product's own files lie: in a checkout its executors and plugins stand beside `gateway`, else inside it."""
MAX_LEVELS = 254
SAFE_BRACKETS = 250
"""A text with no more opening brackets than this cannot be nested deeper than orjson writes (`MAX_LEVELS`)."""

INTEGERS = range(-(1 << 63), 1 << 64)
"""Those that orjson writes itself."""

_SPACE = b" \t\r\n"


def encode_result(value: Any) -> str:
    """A result as JSON, empty for None; raises TypeError or ValueError if it is not JSON.

    One over 64 KiB is replaced by `{"truncated": true, "bytes": …, "head": …}`.
    """
    if value is None:
        return ""
    encoded = _encoded(value)
    # orjson writes NaN as null; only a text that holds one needs the walk
    if b"null" in encoded and _holds_nan(value):
        raise ValueError("the result holds NaN or an infinity, which JSON cannot express")
    if len(encoded) > RESULT_BYTES:
        head = encoded[:MESSAGE_CHARACTERS].decode(errors="ignore")
        return orjson.dumps({"truncated": True, "bytes": len(encoded), "head": head}).decode()
    return encoded.decode()


def result_of(value: Any, returned_by: str) -> str:
    """`encode_result` of what finished work returned; one that is not JSON is Fatal, since the work must not run again
    for it."""
    try:
        return encode_result(value)
    except Exception as exc:  # whatever a value's own code raises when it is written
        raise Fatal(f"{returned_by} returned {_fault_of(value)}", type="result") from exc


def _fault_of(value: Any) -> str:
    try:
        return describe_fault(value, _is_json)
    except Exception:  # the value's own code again, when it is looked at
        return f"{type(value).__qualname__}, which is not JSON, and fails when it is read"


def verbatim(text: bytes) -> orjson.Fragment | None:
    """A value that is kept as its JSON text says it, digit for digit: None for null, and for nothing.

    ValueError if the text is not JSON, or nested deeper than orjson writes (254).
    """
    text = text.strip(_SPACE)
    if not text or orjson.loads(text) is None:
        return None
    if text.count(b"[") + text.count(b"{") > SAFE_BRACKETS:
        try:
            orjson.dumps(orjson.loads(text))
        except orjson.JSONEncodeError as exc:
            raise ValueError(f"nested too deep: {exc}") from exc
    return orjson.Fragment(text)


def encode_progress(value: Any) -> str:
    """Progress as JSON; raises TypeError or ValueError if it is not JSON, or over 1 KiB."""
    encoded = _encoded(value)
    if len(encoded) > PROGRESS_BYTES:
        raise ValueError(f"progress is at most {PROGRESS_BYTES} bytes of JSON")
    return encoded.decode()


def encode_error(type: str, message: str, details: dict[str, Any] | None = None) -> str:
    """An error as the record shows it: `type`, a message of at most 1,024 characters, and the details if they fit."""
    head = {"type": _clean(type)[:64], "message": _clean(message)[:MESSAGE_CHARACTERS]}
    if details:
        try:
            encoded = orjson.dumps(head | {**details, **head}, option=orjson.OPT_NON_STR_KEYS)
        except (TypeError, ValueError):
            return orjson.dumps(head).decode()
        if len(encoded) <= DETAILS_BYTES:
            return encoded.decode()
    return orjson.dumps(head).decode()


_NEVER_LET_OUT = "coroutine raised StopIteration"
"""What Python makes of a `next(…)` without a default in a job's own code, and says nothing of where (PEP 479)."""


def error_of(failure: BaseException, secrets: Sequence[bytes] = ()) -> str:
    """What went wrong, as the record's `error`: an executor's own words, or the exception's type and text; without the
    target's `secrets`."""
    if isinstance(failure, AttemptError):
        message, details = hide_text(_text(failure.message), secrets), hide_within(failure.details, secrets)
        return encode_error(_text(failure.type), message, details)
    if isinstance(failure.__cause__, StopIteration) and str(failure) == _NEVER_LET_OUT:
        failure = failure.__cause__
    frames = _frames(failure)
    text = hide_text(_text(failure), secrets)
    return encode_error(type(failure).__name__, text, {"traceback": frames} if frames else None)


def error_type(error: str) -> str:
    """The `type` of an error as `error_of` wrote it, empty for none."""
    return _type_decoder.decode(error).type if error else ""


class _Typed(msgspec.Struct):
    type: str


_type_decoder = msgspec.json.Decoder(_Typed)


def _frames(failure: BaseException) -> list[str]:
    """Where in the job's own code it came from, the innermost frame last: places only, never values."""
    return [
        f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(failure.__traceback__)
        if not frame.f_code.co_filename.startswith(OWN_CODE)
    ][-FRAMES:]


def _text(value: object) -> str:
    """What it says, also where a job's own code gave no string, or an exception that cannot be printed."""
    try:
        return str(value)
    except Exception as error:
        return f"cannot be printed: {type(error).__name__}"


def _clean(text: str) -> str:
    # a lone surrogate would be refused by the encoder, and lose the error it stands in
    return text.encode("utf-8", "replace").decode("utf-8")


def _encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:  # not JSON, or only an integer that is too large for orjson
        return orjson.dumps(_exact(value), default=_plain)


def _exact(value: Any, levels: int = MAX_LEVELS) -> Any:
    """The value with integers of any size as their digits."""
    if isinstance(value, int):
        return value if isinstance(value, bool) or value in INTEGERS else orjson.Fragment(int.__repr__(value))
    if not levels:
        raise TypeError(f"nested deeper than {MAX_LEVELS} levels")
    if isinstance(value, dict):
        return {key: _exact(item, levels - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(item, levels - 1) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        shown = [each.name for each in fields(value) if not each.name.startswith("_")]
        return {name: _exact(getattr(value, name), levels - 1) for name in shown}
    if isinstance(value, msgspec.Struct) or (hasattr(value, "model_dump") and not isinstance(value, type)):
        return _exact(_plain(value), levels - 1)
    return value


def _is_json(value: Any) -> bool:
    try:
        encode_result(value)
    except Exception:  # as above
        return False
    return True


def _plain(value: Any) -> Any:
    """A msgspec Struct or a pydantic model as what JSON has; TypeError for what is neither."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _holds_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, msgspec.Struct) or hasattr(value, "model_dump"):
        return _holds_nan(_plain(value))
    if is_dataclass(value) and not isinstance(value, type):
        return any(_holds_nan(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, dict):
        return any(_holds_nan(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_nan(item) for item in value)
    return False

"""Whether a text is JSON that executors can parse, told without making the objects that it speaks of.

JSON's grammar (RFC 8259) allows more than orjson and others take: the escape of half a surrogate pair, as in a text
that was cut within an emoji, and numbers that no double holds. And some senders write a byte order mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

try:
    from yyjson import Document
except ImportError:  # it comes built for Python 3.11 to 3.13
    Document = None

_parse: Callable[[bytes], Any] = orjson.loads if Document is None else Document
"""yyjson is the parser that orjson has within: both take the same texts, and refuse numbers that no double holds."""


def is_json(text: bytes) -> bool:
    """Whether orjson parses the text; one that may be nested deeply goes through `too_deep` first."""
    try:
        _parse(text)
    except ValueError:
        return False
    return True


def mend(text: bytes) -> bytes | None:
    """A text that `is_json` refuses, made so that it takes it: without its byte order mark, and with the replacement
    character for half a surrogate pair; all else as it is. None if it is no JSON even so; raises NumberTooLarge."""
    mended = _ESCAPES.sub(_replace_half, text.removeprefix(_MARK))
    if is_json(mended):
        return mended
    if mended.lstrip()[:1] not in (b"{", b"["):  # a number alone is as well a text
        return None
    try:
        json.loads(mended.decode(), parse_float=str, parse_int=str, parse_constant=_refuse)
    except (ValueError, RecursionError):  # brackets that do not pair up may get this far
        return None
    raise NumberTooLarge


class NumberTooLarge(ValueError):
    """Of JSON with a number that no double holds."""


_MARK = b"\xef\xbb\xbf"
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""A pair; half of one, which alone is a group; any other escape, so that none is looked for within it."""


def _replace_half(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else rb"\ufffd"


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON

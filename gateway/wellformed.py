"""Whether a text is JSON that executors can parse, told without making the objects that it speaks of."""

from __future__ import annotations

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

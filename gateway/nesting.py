"""How deep a JSON text is nested, told from its bytes: before a parser recurses, and in linear time."""

from __future__ import annotations

import re

MAX_DEPTH = 64

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""Possessive, and an unterminated string runs to the end, so that no input is scanned twice."""

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_MANY_QUOTES = 50_000
"""Beyond this, a list of what lies between the quotes would cost far more memory than the text."""


def too_deep(text: bytes) -> bool:
    """Whether the arrays and objects of a JSON text lie in each other more than `MAX_DEPTH` deep.

    Each round takes away the innermost pairs, which is one level. A text whose brackets do not pair up is not JSON:
    the parser says so.
    """
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _without_strings(text).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets


def _without_strings(text: bytes) -> bytes:
    """What lies outside the strings: every other piece between quotes, once those that are escaped are gone."""
    if text.count(b'"') > _MANY_QUOTES:
        return _STRING.sub(b"", text)
    if b'\\"' in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])

"""How deep a JSON text is nested, told from its bytes: before a parser recurses, and in linear time."""

from __future__ import annotations

import re

MAX_DEPTH = 64

_SHORTEST = 2 * (MAX_DEPTH + 1)
"""So long a text must be to be too deep."""

_STRING = re.compile(rb'"[^"]*+"?', re.DOTALL)
"""Possessive, and an unterminated string runs to the end, so that no input is scanned twice."""

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"\\')
_NO_MARKS_OR_BACKSLASHES = _NO_MARKS + b"\\"


def too_deep(text: bytes) -> bool:
    """Whether the arrays and objects of a JSON text lie in each other more than `MAX_DEPTH` deep.

    Each round takes away the innermost pairs, which is one level. A text whose brackets do not pair up is not JSON:
    the parser says so.
    """
    if len(text) < _SHORTEST:
        return False
    # as `count`, which looks at one byte after another, where replacing finds the next one at once
    if 2 * len(text) - len(text.replace(b"[", b"")) - len(text.replace(b"{", b"")) <= MAX_DEPTH:
        return False
    marks = text.translate(None, _NO_MARKS)
    brackets = _without_strings(text, marks).translate(_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets


def _without_strings(text: bytes, marks: bytes) -> bytes:
    """The brackets that lie outside the strings, where `marks` are all brackets, quotes and backslashes.

    Two quotes with nothing between them end and begin a string, or begin and end one: whatever else lies inside of
    strings, or outside, stays so without them. That leaves next to nothing of most texts.
    """
    if b"\\" in marks:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        marks = text.translate(None, _NO_MARKS_OR_BACKSLASHES)
    return _STRING.sub(b"", marks.replace(b'""', b""))

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.nesting import MAX_DEPTH, too_deep


@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"]":', b"}]"), (b' [ "\\"[" ,', b"]")]
)
def test_depth_is_counted_exactly(opening: bytes, closing: bytes) -> None:
    levels = 2 if opening == b'[{"]":' else 1
    deepest = MAX_DEPTH // levels
    assert not too_deep(opening * deepest + b"0" + closing * deepest)
    assert too_deep(opening * (deepest + 1) + b"0" + closing * (deepest + 1))


def test_brackets_inside_strings_do_not_count() -> None:
    text = json.dumps(["[" * 1000 + "]" * 1000, '"[', "\\", '\\"' + "{" * 200 + "}" * 200]).encode()
    assert not too_deep(text)


def test_wide_text_is_not_deep() -> None:
    assert not too_deep(b"[" + b"[{}]," * 10_000 + b"0]")


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_shallow_value_is_let_through(value: object) -> None:
    assert not too_deep(json.dumps([value, [[]] * 70], ensure_ascii=False).encode())


@pytest.mark.parametrize("unit", ['"[\\\\"', '"\\"["', '"[\\\\\\"["', '"\\\\\\\\]"', '"\\u005b["'])
def test_escaped_quotes_and_backslashes_end_no_string_too_early(unit: str) -> None:
    text = "[" * 60 + ",".join([unit] * 100) + "]" * 60
    json.loads(text)
    assert not too_deep(text.encode())
    assert too_deep(f"[[[[[{text}]]]]]".encode())
    assert too_deep(b"[[[[[" + text.replace(unit, f"{unit},{unit}" * 300).encode() + b"]]]]]")


@given(st.binary(max_size=300))
def test_any_bytes_inside_a_deep_array_change_nothing(noise: bytes) -> None:
    """Noise as a JSON string: escaped, so that its own quotes and brackets stay inside."""
    text = json.dumps(noise.decode("latin-1"))
    deep = "[" * (MAX_DEPTH + 1) + text + "]" * (MAX_DEPTH + 1)
    assert too_deep(deep.encode())


@pytest.mark.parametrize(
    "unit", [b"[", b"[]", b"[[]", b'"', b'\\"', b'"[', b'[\\"', b"]", b'["\\', b"[" * 30 + b"]" * 30, b"{}[]\\"]
)
def test_work_is_linear_whatever_the_bytes_are(unit: bytes) -> None:
    """A megabyte of each; a quadratic scan would take minutes."""
    started = time.perf_counter()
    too_deep(b"[" * 70 + b'"' + unit * (1_000_000 // len(unit)))
    too_deep(unit * (1_000_000 // len(unit)))
    assert time.perf_counter() - started < 5.0

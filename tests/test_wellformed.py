from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wellformed import is_json, mend

TEXTS = (
    b"",
    b"1",
    b" [1, 2.5e3] ",
    b"-0",
    b"01",
    b"1.",
    b"1e308",
    b"1e309",
    b"[1e308,-1E+400]",
    b"1e-999",
    b"123456789012345678901234567890",
    b"1" * 400,
    b"0." + b"1" * 400,
    b"NaN",
    b"-Infinity",
    b'{"a":1,}',
    b'{"a":1} x',
    b"\xef\xbb\xbf1",
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\xf0\x9f\x98\x80"',
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\\u0000"',
    b'"\x01"',
    b'"\\x"',
    b"'a'",
    b"/**/1",
    b"tru",
    b"1\x00",
    b"[" * 60 + b"]" * 60,
    b"[" * 60 + b"]" * 59,
)


def parses(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_json_where_executors_can_parse_it(text: bytes) -> None:
    assert is_json(text) is parses(text)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}:,"\\eE+-.0123456789 nulltrfasu', max_size=80).map(str.encode))
def test_any_bytes_are_judged_as_executors_judge_them(text: bytes) -> None:
    assert is_json(text) is parses(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_value_is_judged_as_executors_judge_it(value: object) -> None:
    text = json.dumps(value).encode()
    assert is_json(text) is parses(text)


@given(st.text(alphabet='a\\u"d83\ud83d\ude00\U0001f600', max_size=40))
def test_mended_text_says_the_same_but_for_halves_of_surrogate_pairs(text: str) -> None:
    mended = mend(json.dumps([text]).encode())
    assert mended is not None
    whole = json.loads(json.dumps(text))  # halves that lie side by side are a pair in JSON
    assert orjson.loads(mended) == ["".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in whole)]


def test_text_that_is_no_json_is_not_mended() -> None:
    assert mend(b"[" * 100_000) is None
    assert mend(b'"\\ud83d') is None

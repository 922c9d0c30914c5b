"""Durations: one spelling, exact, and an error that shows how to write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.durations import MAX_S, parse_duration

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


@given(number=st.integers(0, 3000), unit=st.sampled_from(sorted(UNITS)))
def test_duration_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") == pytest.approx(number * UNITS[unit])


@given(st.floats(0, MAX_S))
def test_number_is_seconds(seconds: float) -> None:
    assert parse_duration(seconds) == seconds


@pytest.mark.parametrize(("text", "seconds"), [("1.5s", 1.5), ("250ms", 0.25), ("10m", 600), ("0s", 0), ("0.5h", 1800)])
def test_documented_spellings_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "10",
        "1 s",
        " 1s",
        "1s ",
        "1s\n",
        "-1s",
        "+1s",
        "1e3s",
        "1.s",
        ".5s",
        "1S",
        "1sec",
        "1m30s",
        "٣s",
        "1,5s",
    ],
)
def test_other_spellings_are_refused_with_an_example(value: str) -> None:
    with pytest.raises(ValueError, match="1\\.5s"):
        parse_duration(value)


@pytest.mark.parametrize("value", [None, True, [], {}, b"1s"])
def test_other_types_are_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="1\\.5s"):
        parse_duration(value)


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), -1, -0.001, float("nan"), float("inf"), MAX_S + 1, 10**30, "4000d", "9" * 400 + "s"]
)
def test_durations_out_of_range_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="between 0 and ten years"):
        parse_duration(value)

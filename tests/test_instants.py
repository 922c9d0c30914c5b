"""Instants that clients name: read once, whatever number stands there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.errors import InvalidRequest
from gateway.submission.faults import Faults
from gateway.submission.instants import read_instant


@pytest.mark.parametrize(
    ("at", "seconds"),
    [(0, 0.0), (1.5, 1.5), (253402300799, 253402300799.0), (datetime(2026, 1, 1, tzinfo=UTC), 1767225600.0)],
)
def test_instant_is_unix_seconds(at: datetime | float, seconds: float) -> None:
    assert read_instant(at, "/run_at", Faults()) == seconds


@pytest.mark.parametrize("at", [-1, 253402300800, 10**400, -(10**400), float("nan"), float("inf")])
def test_instant_out_of_range_is_a_fault_at_its_place(at: float) -> None:
    faults = Faults()
    assert read_instant(at, "/run_at", faults) is None
    assert faults.touch("/run_at")


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"])
def test_date_out_of_range_is_not_taken_for_a_number(text: str) -> None:
    faults = Faults()
    assert read_instant(datetime.fromisoformat(text), "/run_at", faults) is None
    with pytest.raises(InvalidRequest, match="lies before 1970 or after 9999"):
        faults.raise_any()

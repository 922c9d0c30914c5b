"""Results as a record keeps them: what is JSON, what can be made so, and what is refused."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from gateway.results import encode_result

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


class Size(msgspec.Struct):
    width: float
    at: datetime.datetime = AT


class Order(pydantic.BaseModel):
    number: float
    price: decimal.Decimal = decimal.Decimal("1.10")


@dataclass
class Point:
    x: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Size(1), '{"width":1,"at":"2026-01-02T03:04:05+00:00"}'),
        ({"sizes": [Size(1)]}, '{"sizes":[{"width":1,"at":"2026-01-02T03:04:05+00:00"}]}'),
        (Order(number=2), '{"number":2.0,"price":"1.10"}'),
        ([Order(number=2)], '[{"number":2.0,"price":"1.10"}]'),
        (Point(1.5), '{"x":1.5}'),
        (None, ""),
    ],
)
def test_models_become_json(value: Any, text: str) -> None:
    assert encode_result(value) == text


@pytest.mark.parametrize("make", [Size, lambda x: Order(number=x), Point, lambda x: {"in": [Size(x)]}])
def test_no_nan_passes_for_null_wherever_it_hides(make: Any) -> None:
    with pytest.raises(ValueError, match="NaN or an infinity"):
        encode_result(make(float("nan")))


@pytest.mark.parametrize("value", [object(), {1, 2}, Order, Size])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_result(value)

"""Results as a record keeps them: what is JSON, what can be made so, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pydantic
import pytest

from gateway.errors import Fatal, Retry
from gateway.redaction import secrets_of
from gateway.results import encode_progress, encode_result, error_of, result_of, verbatim
from gateway.secret import Secret

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


@dataclass
class Count:
    number: int
    _seen: int = 0


class Counted(msgspec.Struct):
    number: int


class Sum(pydantic.BaseModel):
    number: int


BIG = 123456789012345678901234567890


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (BIG, f"{BIG}"),
        (-BIG, f"-{BIG}"),
        ({"a": [BIG, (2**64, 2**64 - 1, -(2**63), True)], "at": AT}, None),
        (Count(BIG, BIG), f'{{"number":{BIG}}}'),
        ([Counted(BIG)], f'[{{"number":{BIG}}}]'),
        (Sum(number=BIG), f'{{"number":{BIG}}}'),
    ],
)
def test_integers_keep_their_digits(value: Any, text: str | None) -> None:
    text = text or f'{{"a":[{BIG},[{2**64},{2**64 - 1},{-(2**63)},true]],"at":"2026-01-02T03:04:05+00:00"}}'
    assert encode_result(value) == encode_progress(value) == text


@pytest.mark.parametrize("value", [[BIG, {1}], {"a": BIG, 1: 2}, [10**5000]], ids=["set", "key", "endless"])
def test_large_integer_beside_what_is_no_json_is_refused_with_it(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_result(value)


def test_cycle_beside_a_large_integer_is_refused() -> None:
    cycle: list[Any] = [BIG]
    cycle += [cycle, cycle]
    with pytest.raises(TypeError):
        encode_result(cycle)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":{BIG}}}',
        '{"b": 1.0, "a": 0.10000000000000000555, "e": 1E5, "n": -0}',
        '[ "\\u00e4",\n "ä" ]',
        '{"a":1,"a":2}',
        "[" * 254 + "]" * 254,
        "[" + "[]," * 300 + "0]",
        "false",
        '""',
    ],
)
def test_text_that_is_json_is_kept_byte_for_byte(text: str) -> None:
    assert encode_result(verbatim(f" \r\n{text}\t\n".encode())) == text


@pytest.mark.parametrize("text", [b"", b" \n", b"null", b" null\n"])
def test_text_of_nothing_is_no_result(text: bytes) -> None:
    assert encode_result(verbatim(text)) == ""


@pytest.mark.parametrize(
    "text", [b"{", b"NaN", b'"\xff"', b'"\\ud800"', b"1 2", b"\x0b1", b"01", b"[" * 255 + b"]" * 255, b"[" * 30000]
)
def test_text_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (orjson's words)
        verbatim(text)


def test_text_over_the_limit_is_cut_and_says_so() -> None:
    text = b"[" + b"1, " * 30000 + b"1]"
    cut = orjson.loads(encode_result(verbatim(text)))
    assert (cut["truncated"], cut["bytes"], cut["head"]) == (True, len(text), text[:1024].decode())


@pytest.mark.parametrize("make", [Size, lambda x: Order(number=x), Point, lambda x: {"in": [Size(x)]}])
def test_no_nan_passes_for_null_wherever_it_hides(make: Any) -> None:
    with pytest.raises(ValueError, match="NaN or an infinity"):
        encode_result(make(float("nan")))


@pytest.mark.parametrize("value", [object(), {1, 2}, Order, Size])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_result(value)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (decimal.Decimal("1.5"), "decimal.Decimal, which is not JSON; return str or float"),
        ({"a": [1, {2}]}, "set at $.a[1], which is not JSON; return list"),
        ({"a": {"b": b"x"}}, "bytes at $.a.b, which is not JSON; return str"),
        ({"a": (1, {True: 1})}, "a dict at $.a[1] with a key of type bool, which is not JSON; make its keys str"),
        (Point(float("inf")), "NaN or an infinity at $.x, which is not JSON; return None"),
        (["\ud800"], "str at $[0], which is not JSON; return text without lone surrogates"),
        ([int], "the class int at $[0], which is not JSON; return dict, list, str, int, float, bool or None"),
        ([BIG, Count({3})], "set at $[1].number, which is not JSON; return list"),  # type: ignore[arg-type]
    ],
)
def test_result_that_is_no_json_is_fatal_and_says_what_is_where(value: Any, told: str) -> None:
    with pytest.raises(Fatal) as caught:
        result_of(value, "shop:charge")
    assert (caught.value.type, caught.value.message) == ("result", f"shop:charge returned {told}")


class Detached(list[Any]):
    """As a mapper's collection that loads when it is read, and whose session is over."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("detached")


def test_result_that_cannot_be_read_is_fatal() -> None:
    with pytest.raises(Fatal, match="shop:charge returned Detached, which is not JSON, and fails when it is read"):
        result_of(Detached([object()]), "shop:charge")


def test_result_inside_itself_is_fatal() -> None:
    with pytest.raises(Fatal, match="nested so deep"):
        result_of({"a": CYCLE}, "shop:charge")


@pytest.mark.parametrize("name", ["executors.shop", "plugins.shop", "gateway.shop", "gateway"])
def test_error_shows_the_frames_of_a_users_own_package_whatever_its_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "gateway" / "shop.py"
    code = compile("def charge():\n    raise KeyError('k')", str(file), "exec")
    module: dict[str, Any] = {"__name__": name}
    exec(code, module)
    with pytest.raises(KeyError) as caught:
        module["charge"]()
    caught.value.__traceback__ = caught.value.__traceback__ and caught.value.__traceback__.tb_next
    assert orjson.loads(error_of(caught.value))["traceback"] == ["shop.py:2 in charge"]


def test_error_shows_no_frame_of_our_own() -> None:
    with pytest.raises(TypeError) as caught:
        encode_result({1, 2})
    told = orjson.loads(error_of(caught.value))["traceback"]
    assert {frame.partition(":")[0] for frame in told} == {"test_results.py"}


class Paid(msgspec.Struct):
    secrets: tuple[Secret, ...]
    by_name: dict[str, Secret]
    port: int = 80


@pytest.mark.parametrize("failure", [ValueError, Fatal, Retry])
def test_error_shows_no_secret_of_its_target(failure: type[Exception]) -> None:
    config = Paid((Secret('of-the "shop"'), Secret("short")), {"API": Secret("of-the-till")})
    error = failure('of-the "shop", short and of-the-till')
    if isinstance(error, Fatal | Retry):
        error.details = {"sent": ["of-the-till", 1], "repr": json.dumps('of-the "shop"')}
    told = error_of(error, secrets_of(config))
    assert orjson.loads(told)["message"] == "***, short and ***"
    assert "of-the" not in told
    assert not isinstance(error, Fatal | Retry) or orjson.loads(told)["sent"] == ["***", 1]


def test_error_whose_details_hold_themselves_is_told_all_the_same() -> None:
    details: dict[str, Any] = {}
    details["self"] = details
    told = orjson.loads(error_of(Fatal("no", details=details), [b"of-the-till"]))
    assert told["message"] == "no"


async def test_stop_iteration_of_a_job_is_told_as_such_with_its_place() -> None:
    async def run() -> object:
        names: dict[str, object] = {}
        exec(compile("def first():\n    return next(iter(()))", "/app/shop.py", "exec"), names)
        first: Any = names["first"]
        return first()

    with pytest.raises(RuntimeError) as caught:
        await run()
    error = orjson.loads(error_of(caught.value))
    assert (error["type"], error["message"]) == ("StopIteration", "")
    assert error["traceback"][-1] == "shop.py:2 in first"

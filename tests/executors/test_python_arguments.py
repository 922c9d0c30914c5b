"""The `python` executor: payloads become arguments as the annotations say, or the job is dead with the place named."""

from __future__ import annotations

import asyncio
import datetime
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from executors.python import PythonConfig, PythonExecutor
from gateway import Attempt, Context, Fatal
from gateway.testing.executors import make_attempt

WAIT_S = 30.0
MODULE = "arguments_under_test"

Call = Callable[[Callable[..., Any], bytes], Awaitable[Any]]


class Size(msgspec.Struct):
    width: Annotated[int, msgspec.Meta(ge=1)]
    height: int = 10


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, hide_input_in_errors=False)

    number: int
    at: datetime.datetime | None = None


@dataclass
class Point:
    x: float
    y: float


class Lines(TypedDict):
    lines: list[str]


@pytest.fixture
async def call() -> AsyncIterator[Call]:
    """What a function gives for a payload, run as if it were configured."""
    module, executor = types.ModuleType(MODULE), PythonExecutor()
    sys.modules[MODULE] = module
    await executor.start()

    async def execute(function: Callable[..., Any], payload: bytes) -> Any:
        module.__dict__["f"] = function
        executor.check(config := PythonConfig(callable=f"{MODULE}:f"))
        async with asyncio.timeout(WAIT_S):
            return (await executor.execute(make_attempt(config, payload, number=2))).value

    yield execute
    await executor.aclose()
    del sys.modules[MODULE]


def keys(image: str, width: int = 200, *, size: Size | None = None) -> Any:
    return [image, width, size]


async def keys_with_context(image: str, context: Context, width: int = 200) -> Any:
    return [image, width, context.attempt]


def only_key(*, image: str) -> Any:
    return image


def rest(image: str, **more: Any) -> Any:
    return [image, more]


def models(order: Order, sizes: list[Size], orders: list[Order]) -> Any:
    return [order.number, sizes[0].width, [each.number for each in orders]]


async def test_annotated_parameters_are_filled_by_the_payloads_keys(call: Call) -> None:
    assert await call(keys, b'{"image": "a.png"}') == ["a.png", 200, None]
    payload = b'{"size": {"width": 3}, "width": 7, "image": "a.png"}'
    assert await call(keys, payload) == ["a.png", 7, Size(3, 10)]
    assert await call(keys_with_context, b'{"image": "a.png"}') == ["a.png", 200, 2]
    assert await call(only_key, b'{"image": "b"}') == "b"


async def test_keys_that_no_parameter_names_go_to_the_rest(call: Call) -> None:
    assert await call(rest, b'{"image": "b", "n": 1, "m": [2]}') == ["b", {"n": 1, "m": [2]}]


async def test_models_of_msgspec_and_of_pydantic_go_together(call: Call) -> None:
    payload = (
        b'{"order": {"number": 1, "at": "2026-01-02T03:04:05Z"}, "sizes": [{"width": 2}], "orders": [{"number": 9}]}'
    )
    assert await call(models, payload) == [1, 2, [9]]


@pytest.mark.parametrize(
    ("annotation", "payload", "value"),
    [
        (int, b"3", 3),
        (Size, b'{"width": 3}', Size(3)),
        (Size | None, b"null", None),
        (Size | None, b"", None),
        (Point, b'{"x": 1, "y": 2.5}', Point(1.0, 2.5)),
        (Lines, b'{"lines": ["a"]}', {"lines": ["a"]}),
        (dict[str, Any], b'{"n": 18446744073709551617}', {"n": 2**64 + 1}),
        (Literal["a", "b"], b'"b"', "b"),
        (bytes, b' {"n": 1.0}', b' {"n": 1.0}'),
        (Any, b"[1]", [1]),
        (object, b"[1]", [1]),
        (
            Order,
            b'{"number": 4, "at": "2026-01-02T00:00:00Z"}',
            Order(number=4, at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
        ),
    ],
)
async def test_only_parameter_is_the_whole_payload_as_annotated(
    call: Call, annotation: Any, payload: bytes, value: Any
) -> None:
    def function(given: Any) -> Any:
        return [given, type(given)]

    function.__annotations__["given"] = annotation
    assert await call(function, payload) == [value, type(value)]


async def test_first_parameter_named_payload_is_the_whole_payload(call: Call) -> None:
    def function(payload: dict[str, int], size: int = 200) -> Any:
        return [payload, size]

    assert await call(function, b'{"size": 1}') == [{"size": 1}, 200]


async def test_function_without_parameters_needs_no_payload(call: Call) -> None:
    assert await call(lambda: 7, b'{"a": 1}') == 7
    assert await call(lambda: 7, b"") == 7

    def asking(context: Context) -> int:
        return context.attempt

    assert await call(asking, b"") == 2


async def test_payload_that_is_left_out_leaves_the_defaults(call: Call) -> None:
    def function(a: int = 1, b: str = "x") -> Any:
        return [a, b]

    assert await call(function, b"") == [1, "x"]
    assert await call(function, b"null") == [1, "x"]


async def test_context_is_found_by_its_annotation_wherever_it_stands(call: Call) -> None:
    def first(about: Context, order: Size) -> Any:
        return [about.attempt, order.width]

    def last(order: Size, *, about: Context | None = None) -> Any:
        return [about.attempt if about else 0, order.width]

    def bare(order: Size, about: Attempt[Any]) -> Any:
        return [about.number, order.width]

    for function in (first, last, bare):
        assert await call(function, b'{"width": 5}') == [2, 5]


@pytest.mark.parametrize(
    ("function", "payload", "message"),
    [
        (keys, b"{}", f"does not fit {MODULE}:f: Object missing required field `image`"),
        (keys, b'{"image": "a", "width": "wide"}', r"Expected `int`, got `str` - at `\$.width`"),
        (keys, b'{"image": "a", "witdh": 3}', "unknown field `witdh`"),
        (keys, b'{"image": "a", "size": {"width": 0}}', r"Expected `int` >= 1 - at `\$.size.width`"),
        (keys, b"[1]", "Expected `object`, got `array`"),
        (keys, b"{", "the payload is not JSON"),
        (
            models,
            b'{"order": {"number": "secret"}, "sizes": [], "orders": []}',
            r"valid integer - at `\$.number` - at `\$.order`",
        ),
        (rest, b"[1]", "Expected `object`, got `array`"),
    ],
)
async def test_payload_that_does_not_fit_is_fatal_and_names_the_place(
    call: Call, function: Callable[..., Any], payload: bytes, message: str
) -> None:
    with pytest.raises(Fatal, match=message) as caught:
        await call(function, payload)
    assert caught.value.type == "payload"
    assert "secret" not in caught.value.message


async def test_fault_of_a_pydantic_model_names_its_fields_and_no_value(call: Call) -> None:
    def function(order: Order) -> None: ...

    with pytest.raises(Fatal, match=r"valid integer - at `\$.number`; .*valid datetime.* - at `\$.at`") as caught:
        await call(function, b'{"number": "hunter2", "at": []}')
    assert "hunter2" not in caught.value.message
    with pytest.raises(Fatal, match="Invalid JSON"):
        await call(function, b"{")


class Unreadable:
    pass


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Unreadable, "Unreadable is no type that JSON can be read into"),
        (list[Unreadable], "Unreadable is no type"),
        ("NoSuchName", "its annotations cannot be read: name 'NoSuchName' is not defined; import what they name"),
        (int | Point | Size, "may not contain more than one"),
    ],
)
def test_annotation_that_no_payload_can_be_read_into_stops_the_start(annotation: Any, message: str) -> None:
    def function(given: Any) -> None: ...

    function.__annotations__["given"] = annotation
    module = types.ModuleType(MODULE)
    module.__dict__["f"] = function
    sys.modules[MODULE] = module
    try:
        with pytest.raises(ValueError, match=message) as caught:
            PythonExecutor().check(PythonConfig(callable=f"{MODULE}:f"))
    finally:
        del sys.modules[MODULE]
    assert str(caught.value).startswith(f"{MODULE}:f: ")

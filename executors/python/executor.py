"""What the `python` executor promises, and how a call's ending becomes an attempt's."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
from typing import Any, ClassVar

import msgspec
import orjson

from gateway import Attempt, Executor, Fatal, Result, Retry

from .function import Function, find
from .threads import Threads

_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


class PythonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The function to call: `"shop.images:resize"`, or with a dotted attribute, `"shop.images:Resizer.small"`."""

    callable: str

    def __post_init__(self) -> None:
        if _PLACE.match(self.callable) is None:
            raise ValueError(f'callable is {self.callable!r}; write "package.module:function"')


class PythonExecutor(Executor[PythonConfig]):
    """Calls `f(payload)` or `f(payload, context)`: the parsed payload (None for no bytes at all), and the `Attempt`
    if a second argument is required or is named `context`. What it returns is the result; a returned `Result` is
    passed on. Whatever it raises fails the attempt, `sys.exit()` included; a payload that is no JSON is fatal.

    An async function runs in the event loop, so it must not block; a sync one runs in one of `threads` threads, in
    a copy of the caller's context variables. A thread cannot be killed: when a sync call is cancelled (a timeout),
    `CancelledError` passes at once, but the call goes on in its thread, its effects still happen, and its place
    among the threads is taken until it returns. Out of reach are `os._exit`, and `sys.exit()` in a task of its own.
    """

    name: ClassVar[str] = "python"
    Config: ClassVar[type[msgspec.Struct]] = PythonConfig

    def __init__(self, *, threads: int = 100) -> None:
        self._functions: dict[str, Function] = {}
        self._limit = threads
        self._threads: Threads | None = None

    def check(self, config: PythonConfig) -> None:
        """Imports the callable; raises ValueError that says what is missing."""
        _make_working_directory_importable()
        self._functions[config.callable] = find(config.callable)

    async def start(self) -> None:
        """Makes the working directory importable."""
        _make_working_directory_importable()

    async def execute(self, attempt: Attempt[PythonConfig]) -> Result:
        place = attempt.config.callable
        function = self._functions.get(place) or self._load(place)
        payload = _payload(attempt)
        arguments = (payload, attempt) if function.takes_context else (payload,)
        try:
            value = await (function.call(*arguments) if function.is_async else self._in_thread(function, arguments))
        except (Exception, GeneratorExit):
            raise
        except asyncio.CancelledError as exc:
            if _cancelled_from_outside():
                raise
            raise _stray(exc, place) from exc
        except BaseException as exc:
            raise _stray(exc, place) from exc
        return value if isinstance(value, Result) else Result(value)

    async def aclose(self) -> None:
        """Ends the idle threads; one that is still in a call ends after it, or with the process."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    def _load(self, place: str) -> Function:
        try:
            found = self._functions[place] = find(place)
        except ValueError as exc:
            raise Retry(str(exc), type="import") from exc
        return found

    async def _in_thread(self, function: Function, arguments: tuple[Any, ...]) -> Any:
        if self._threads is None:
            self._threads = Threads(self._limit)
        value = await self._threads.run(function.call, arguments)
        return await value if inspect.isawaitable(value) else value


def _make_working_directory_importable() -> None:
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def _payload(attempt: Attempt[PythonConfig]) -> Any:
    try:
        return attempt.payload.value if attempt.payload.raw else None
    except orjson.JSONDecodeError as exc:
        raise Fatal(f"the payload is not JSON: {exc}", type="payload") from exc


def _cancelled_from_outside() -> bool:
    """Whether someone cancelled the attempt, rather than its function raising CancelledError by itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _stray(exc: BaseException, place: str) -> Retry:
    """A failed attempt, for what would otherwise end the dispatcher or pass for a cancellation."""
    kind = type(exc).__name__
    return Retry(f"{place} raised {kind}({', '.join(map(repr, exc.args))})", type=kind.lower())

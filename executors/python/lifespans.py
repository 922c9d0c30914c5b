"""The lifespans of users' modules: run around every call of their functions, once in a process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import structlog

from gateway import lifespans_in

log = structlog.get_logger("gateway.executors.python")


class Lifespans:
    """Enters the lifespans of each module once, and leaves them in the reverse order; `state` is what they yielded.

    Each runs from beginning to end in a task of its own, since a task group inside of one cannot be left by another.
    """

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self._places: set[str] = set()
        self._entered: list[tuple[asyncio.Event, asyncio.Task[None]]] = []
        self._lock = asyncio.Lock()

    async def enter(self, modules: Iterable[str]) -> None:
        """Enters those of these imported modules and of the packages they lie in; raises ValueError if one fails."""
        async with self._lock:
            for name in (part for module in modules for part in _with_packages(module)):
                if (module := sys.modules.get(name)) is not None:
                    await self._enter_module(module)

    async def aclose(self) -> None:
        """Leaves all of them, the last first; one that fails is logged."""
        async with self._lock:
            while self._entered:
                leave, task = self._entered.pop()
                leave.set()
                await asyncio.wait([task])
                if not task.cancelled() and (failure := task.exception()) is not None:
                    log.error("lifespan did not end well", lifespan=task.get_name(), exc_info=failure)
            self.state.clear()
            self._places.clear()

    async def _enter_module(self, module: ModuleType) -> None:
        for name, function in lifespans_in(module):
            place = f"{module.__name__}:{name}"
            if place in self._places:
                continue
            leave = asyncio.Event()
            entered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(_hold(function, place, entered, leave), name=place)
            self._entered.append((leave, task))
            try:
                self._merge(await entered, place)
            except asyncio.CancelledError:
                task.cancel()
                raise
            self._places.add(place)

    def _merge(self, yielded: object, place: str) -> None:
        if yielded is None:
            return
        if not isinstance(yielded, Mapping):
            raise ValueError(f"lifespan {place} yielded {type(yielded).__name__}; yield a mapping, or nothing")
        if taken := sorted(set(yielded) & set(self.state)):
            raise ValueError(
                f"lifespan {place} yielded {taken[0]!r}, which another yielded already; rename one of them"
            )
        self.state.update(yielded)


async def _hold(function: Callable[[], Any], place: str, entered: asyncio.Future[object], leave: asyncio.Event) -> None:
    try:
        async with _manager(function) as yielded:
            entered.set_result(yielded)
            await leave.wait()
    except (Exception, SystemExit) as exc:
        if entered.done():
            raise
        entered.set_exception(_named(exc, place))


def _manager(function: Callable[[], Any]) -> contextlib.AbstractAsyncContextManager[object]:
    if inspect.isasyncgenfunction(function):
        return contextlib.asynccontextmanager(function)()
    made = contextlib.contextmanager(function)() if inspect.isgeneratorfunction(function) else function()
    if isinstance(made, contextlib.AbstractAsyncContextManager):
        return made
    if isinstance(made, contextlib.AbstractContextManager):
        return _Plain(made)
    raise TypeError("it is no generator; write a function, async or not, with one yield")


class _Plain(contextlib.AbstractAsyncContextManager[object]):
    """A context manager as an asynchronous one."""

    def __init__(self, inner: contextlib.AbstractContextManager[object]) -> None:
        self._inner = inner

    async def __aenter__(self) -> object:
        return self._inner.__enter__()

    async def __aexit__(self, *about: Any) -> bool | None:
        return self._inner.__exit__(*about)


def _named(exc: BaseException, place: str) -> ValueError:
    failure = ValueError(f"lifespan {place} failed: {type(exc).__name__}: {exc}")
    failure.__cause__ = exc
    return failure


def _with_packages(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: at + 1]) for at in range(len(parts))]

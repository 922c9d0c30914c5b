"""What the `python` executor promises, and how a call's ending becomes an attempt's."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import orjson

from gateway import Attempt, Context, Executor, Fatal, Pulse, Result, Retry, processes

from .config import PythonConfig
from .function import Function, find, make_working_directory_importable
from .lifespans import Lifespans
from .pool import IDLE_S, Pool
from .threads import Spent, Threads

_NOTHING = Result()
"""What most functions return, made once."""

_PATIENCE = 0.9
"""Of an attempt's time, to wait for calls that were left behind: then there is time left to say so."""


class PythonExecutor(Executor[PythonConfig]):
    """Calls `f(payload)`, `f(payload, context)` or `f(key=…, …)`: the payload parsed, or read as the annotations say.

    What it returns is the result; a returned `Result` is passed on. Whatever it raises fails the attempt, `sys.exit()`
    included; a payload that is no JSON, or does not fit the annotations, is fatal.

    An async function runs in the event loop, so it must not block; a sync one runs in one of `threads` threads, in
    a copy of the caller's context variables; with `isolation = "process"` either runs in a process of its own, which is
    killed when the call is cancelled. A thread cannot be killed: when a sync call is cancelled (a timeout),
    `CancelledError` passes at once, but the call goes on in its thread, and its effects still happen; its place is
    free, in a new thread, as far as `Threads` says. The wait for a place is not the attempt's time. Out of reach are
    `os._exit`, and `sys.exit()` in a task of its own.
    The lifespans of the functions' modules, and of `modules`, run around all calls.
    """

    name: ClassVar[str] = "python"
    Config: ClassVar[type[msgspec.Struct]] = PythonConfig

    def __init__(
        self, *, threads: int = 100, modules: Sequence[str] = (), environ: Mapping[str, str] = os.environ
    ) -> None:
        self._checked: dict[str, Function] = {}
        self._functions: dict[str, Function] = {}
        self._modules = tuple(modules)
        self._limit = threads
        self._threads: Threads | None = None
        self._lifespans: Lifespans | None = None
        self._environ = environ
        self._launcher = processes.Launcher(environ)
        self._pools: dict[PythonConfig, Pool] = {}

    def check(self, config: PythonConfig) -> None:
        """Imports the callable; raises ValueError that says what is missing."""
        make_working_directory_importable()
        found = find(config.callable)
        if config.isolation == "thread" and found.is_async:
            raise ValueError(
                f"{config.callable} is async and runs in the event loop; leave isolation out, or write process"
            )
        if config.isolation == "process" and found.wants == "attempt":
            raise ValueError(
                f"{config.callable} asks for the Attempt, which no process of its own has; ask for Context"
            )
        if config.isolation == "process":
            return
        self._checked[config.callable] = found
        self._functions.pop(config.callable, None)

    def ending_s(self, config: PythonConfig) -> float:
        return super().ending_s(config) + (processes.SWEEP_S if config.isolation == "process" else 0.0)

    def code_name(self, config: PythonConfig) -> str:
        return config.callable

    async def start(self) -> None:
        """Makes the working directory importable; enters the lifespans of what was checked."""
        make_working_directory_importable()
        await self._enter([*self._modules, *(place.partition(":")[0] for place in self._checked)])
        self._functions |= self._checked

    async def execute(self, attempt: Attempt[PythonConfig]) -> Result:
        if attempt.config.isolation == "process":
            return Result(await self._pool(attempt.config).run(attempt, Pulse(attempt.config.heartbeat)))
        place = attempt.config.callable
        function = self._functions.get(place) or await self._load(place)
        payload = _payload(attempt) if function.read is None else function.read(attempt.payload.raw)
        try:
            if function.wants or attempt.config.heartbeat is not None:
                value = await self._with_pulse(function, payload, attempt)
            elif function.is_async:
                value = await function.call(payload)
            else:
                value = await self._called(await self._place(attempt), function, (payload,), place)
        except (Exception, GeneratorExit):  # the second may be this coroutine's own end
            raise
        except asyncio.CancelledError as exc:
            if _cancelled_from_outside():
                raise
            raise _stray(exc, place) from exc
        except BaseException as exc:
            raise _stray(exc, place) from exc
        if value is None:
            return _NOTHING
        return value if isinstance(value, Result) else Result(value)

    async def aclose(self) -> None:
        """Ends the processes, leaves the lifespans, ends the idle threads; a thread that is still in a call ends after
        it, or with this process."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()
        await self._launcher.aclose()
        lifespans, self._lifespans = self._lifespans, None
        if lifespans is not None:
            await lifespans.aclose()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()

    def trouble(self) -> str:
        return self._threads.trouble() if self._threads is not None else ""

    def _pool(self, config: PythonConfig) -> Pool:
        pool = self._pools.get(config)
        if pool is None:
            pool = Pool(self._launcher, config, modules=self._modules, environ=self._environ, idle_s=IDLE_S)
            self._pools[config] = pool
        return pool

    async def _load(self, place: str) -> Function:
        try:
            found = self._checked.get(place) or find(place)
            await self._enter([place.partition(":")[0]])
        except ValueError as exc:
            raise Retry(str(exc), type="import") from exc
        self._functions[place] = found
        return found

    async def _enter(self, modules: Sequence[str]) -> None:
        self._lifespans = self._lifespans or Lifespans()
        await self._lifespans.enter(modules)

    async def _with_pulse(self, function: Function, payload: Any, attempt: Attempt[PythonConfig]) -> Any:
        """A call that may want the context, or must give signs of life."""
        threads = None if function.is_async else await self._place(attempt)
        pulse, over = Pulse(attempt.config.heartbeat), Over(attempt)
        arguments: tuple[Any, ...] = (payload,)
        if function.wants == "attempt":
            arguments = (payload, attempt)
        elif function.wants:
            arguments = (payload, self._context(attempt, pulse, over))
        if threads is None:
            work = function.call(*arguments)
        else:
            work = self._called(threads, function, arguments, attempt.config.callable)
        try:
            return await (pulse.guard(work) if attempt.config.heartbeat is not None else work)
        finally:
            over.ended = True

    def _context(self, attempt: Attempt[PythonConfig], pulse: Pulse, over: Over) -> Context:
        job = attempt.job
        return Context(
            job,
            attempt.payload,
            attempt=attempt.number,
            deadline=attempt.deadline,
            log=attempt.log.bind(job_id=job.job_id, target=job.target, attempt=attempt.number),
            state=self._lifespans.state if self._lifespans is not None else {},
            report=attempt.report,
            beat=pulse.beat,
            cancelled=over,
            http=attempt.http,
        )

    async def _place(self, attempt: Attempt[PythonConfig]) -> Threads:
        """Takes a place for a call, which is to follow at once. The wait is not the attempt's time, unless it is for
        calls of the same function that were left behind."""
        if self._threads is None:
            self._threads = Threads(self._limit)
        threads, place = self._threads, attempt.config.callable
        if threads.take(place):
            return threads
        try:
            if not threads.is_spent(place):
                await attempt.untimed(threads.wait(place))
                return threads
        except Spent:  # it came to be so
            pass
        try:
            async with asyncio.timeout(attempt.remaining_s() * _PATIENCE):
                while True:
                    with contextlib.suppress(Spent):  # as this is known, each further call that is left behind says so
                        await threads.wait(place)
                        return threads
        except TimeoutError as exc:
            raise Retry(
                f"{place} was not called: as many of its calls as may be have not ended with their attempts",
                type="threads",
            ) from exc

    async def _called(self, threads: Threads, function: Function, arguments: tuple[Any, ...], place: str) -> Any:
        value = await threads.run(place, function.call, arguments)
        return await value if inspect.isawaitable(value) else value


class Over:
    """Whether an attempt is over, or is to be: a call that goes on in its thread can ask."""

    __slots__ = ("_cancelled", "ended")

    def __init__(self, attempt: Attempt[PythonConfig]) -> None:
        self._cancelled = attempt.cancelled
        self.ended = False

    def __call__(self) -> bool:
        return self.ended or self._cancelled.is_set()


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

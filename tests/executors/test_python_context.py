"""The `python` executor: what a function learns from its context, and lifespans around all calls."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import structlog

import gateway
from executors.python import PythonConfig, PythonExecutor
from gateway import Context, Duration, Retry
from gateway.testing.executors import NoHttp, make_attempt

WAIT_S = 30.0
MODULE = "context_under_test"


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    yield module
    del sys.modules[MODULE]


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    executor = PythonExecutor()
    yield executor
    await executor.aclose()


Run = Callable[..., Awaitable[Any]]


@pytest.fixture
def run(module: types.ModuleType, executor: PythonExecutor) -> Run:
    async def execute(function: Callable[..., Any], *, heartbeat_s: float | None = None, **attempt: Any) -> Any:
        module.__dict__["f"] = function
        heartbeat = None if heartbeat_s is None else Duration(heartbeat_s)
        executor.check(config := PythonConfig(callable=f"{MODULE}:f", heartbeat=heartbeat))
        async with asyncio.timeout(WAIT_S):
            return (await executor.execute(make_attempt(config, b'{"n": 1}', **attempt))).value

    return execute


async def test_context_tells_of_the_attempt(run: Run) -> None:
    def function(payload: Any, context: Context) -> Any:
        seen = [context.attempt, context.number, context.job.target, context.payload.raw, context.cancelled]
        return [*seen, 0 < context.remaining_s() <= 5, context.span.is_recording(), dict(context.state)]

    assert await run(function, number=3, target="resize") == [3, 3, "resize", b'{"n": 1}', False, True, False, {}]


async def test_log_of_the_context_says_which_job_it_speaks_of(run: Run) -> None:
    def function(payload: Any, context: Context) -> str:
        context.log.info("resized", width=3)
        return context.job.job_id

    with structlog.testing.capture_logs() as logged:
        job_id = await run(function, number=2, target="resize")
    (line,) = [entry for entry in logged if entry["event"] == "resized"]
    assert (line["job_id"], line["target"], line["attempt"], line["width"]) == (job_id, "resize", 2, 3)


async def test_progress_is_reported_from_the_loop_and_from_threads(run: Run) -> None:
    reported: list[Any] = []

    def in_thread(payload: Any, context: Context) -> None:
        context.progress({"done": 1})

    async def in_loop(payload: Any, context: Context) -> None:
        context.progress({"done": 2})

    await run(in_thread, report=reported.append)
    await run(in_loop, report=reported.append)
    assert reported == [{"done": 1}, {"done": 2}]


async def test_http_client_is_the_attempts(run: Run) -> None:
    client = NoHttp()
    assert await run(lambda payload, context: context.http, http=client) is client


async def test_function_in_a_thread_sees_that_its_attempt_is_over(run: Run) -> None:
    began, saw = threading.Event(), threading.Event()
    ask = threading.Event()

    def function(payload: Any, context: Context) -> None:
        assert not context.cancelled
        began.set()
        ask.wait(WAIT_S)
        if context.cancelled:
            saw.set()

    task = asyncio.ensure_future(run(function))
    assert await asyncio.to_thread(began.wait, WAIT_S)
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    assert task.cancelled()
    ask.set()
    assert await asyncio.to_thread(saw.wait, WAIT_S)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_attempt_without_a_sign_of_life_is_retried(run: Run, kind: str) -> None:
    release = threading.Event()

    async def stuck(payload: Any) -> None:
        await asyncio.Event().wait()

    def stuck_in_thread(payload: Any) -> None:
        release.wait(WAIT_S)

    with pytest.raises(Retry, match=r"no sign of life for 0\.05 s") as caught:
        await run(stuck if kind == "async" else stuck_in_thread, heartbeat_s=0.05)
    release.set()
    assert caught.value.type == "heartbeat"


@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
async def test_signs_of_life_keep_an_attempt_running(run: Run, sign: str) -> None:
    def function(payload: Any, context: Context) -> str:
        still = threading.Event()
        for _ in range(8):
            still.wait(0.1)
            context.heartbeat() if sign == "heartbeat" else context.progress(1)
        return "done"

    assert await run(function, heartbeat_s=0.6) == "done"


async def test_time_out_of_the_functions_own_is_not_taken_for_silence(run: Run) -> None:
    async def function(payload: Any) -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await run(function, heartbeat_s=5)


async def test_lifespans_run_around_all_calls_and_give_the_state(
    module: types.ModuleType, executor: PythonExecutor
) -> None:
    log: list[str] = []

    @gateway.lifespan
    async def clients() -> AsyncIterator[dict[str, Any]]:
        log.append("enter clients")
        async with asyncio.TaskGroup() as group:  # which only the task that entered it may leave
            yield {"client": "c", "group": group}
        log.append("leave clients")

    @gateway.lifespan
    def plain() -> Iterator[None]:
        log.append("enter plain")
        yield
        log.append("leave plain")

    async def function(payload: Any, context: Context) -> Any:
        log.append("call")
        return context.state["client"]

    for name, each in {"clients": clients, "plain": plain, "f": function}.items():
        each.__module__ = MODULE
        module.__dict__[name] = each
    config = PythonConfig(callable=f"{MODULE}:f")
    executor.check(config)
    await asyncio.create_task(executor.start())
    await executor.start()
    for _ in range(2):
        assert (await executor.execute(make_attempt(config))).value == "c"
    await executor.aclose()
    assert log == ["enter clients", "enter plain", "call", "call", "leave plain", "leave clients"]


async def test_lifespans_of_packages_of_imported_modules_and_of_late_functions_are_entered(
    module: types.ModuleType,
) -> None:
    entered: list[str] = []

    def of(name: str) -> Any:
        @gateway.lifespan
        @asynccontextmanager
        async def manager() -> AsyncIterator[None]:
            entered.append(name)
            yield

        manager.__module__ = name
        return manager

    for name in ("shop_lifespans", "shop_lifespans.tasks", "other_lifespans"):
        made = types.ModuleType(name)
        made.__dict__.update(manager=of(name), f=lambda payload: None)
        sys.modules[name] = made
    module.__dict__.update(manager=of("elsewhere"), f=lambda payload: None)
    try:
        executor = PythonExecutor(modules=["other_lifespans"])
        await executor.start()
        assert entered == ["other_lifespans"]
        config = PythonConfig(callable="shop_lifespans.tasks:f")
        await asyncio.gather(*(executor.execute(make_attempt(config)) for _ in range(3)))
        await executor.execute(make_attempt(PythonConfig(callable=f"{MODULE}:f")))
        assert entered == ["other_lifespans", "shop_lifespans", "shop_lifespans.tasks"], "one is only imported there"
        await executor.aclose()
    finally:
        for name in ("shop_lifespans", "shop_lifespans.tasks", "other_lifespans"):
            del sys.modules[name]


def failing() -> Iterator[None]:
    raise OSError("no such database")
    yield


def no_generator() -> int:
    return 3


def yields_a_list() -> Iterator[list[int]]:
    yield [1]


@contextmanager
def yields_a_taken_name() -> Iterator[dict[str, int]]:
    yield {"client": 1}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, f"lifespan {MODULE}:broken failed: OSError: no such database"),
        (no_generator, "broken failed: TypeError: it is no generator; write a function"),
        (yields_a_list, "broken yielded list; yield a mapping"),
        (yields_a_taken_name, "broken yielded 'client', which another yielded already"),
    ],
)
async def test_lifespan_that_cannot_be_entered_stops_the_start_and_is_named(
    module: types.ModuleType, executor: PythonExecutor, function: Any, message: str
) -> None:
    @gateway.lifespan
    def clients() -> Iterator[dict[str, int]]:
        yield {"client": 1}

    def broken() -> Any:
        return function()

    clients.__module__ = broken.__module__ = MODULE
    broken = gateway.lifespan(function if function is not yields_a_taken_name else broken)
    broken.__module__ = MODULE
    module.__dict__.update(clients=clients, broken=broken, f=lambda payload: None)
    executor.check(PythonConfig(callable=f"{MODULE}:f"))
    with pytest.raises(ValueError, match=message):
        await executor.start()


async def test_lifespan_that_fails_at_its_end_is_logged_and_keeps_no_other_from_ending(
    module: types.ModuleType, executor: PythonExecutor
) -> None:
    left: list[str] = []

    @gateway.lifespan
    def first() -> Iterator[None]:
        yield
        left.append("first")

    @gateway.lifespan
    async def second() -> AsyncIterator[None]:
        yield
        raise RuntimeError("broken at its end")

    first.__module__ = second.__module__ = MODULE
    module.__dict__.update(first=first, second=second, f=lambda payload: None)
    executor.check(PythonConfig(callable=f"{MODULE}:f"))
    await executor.start()
    with structlog.testing.capture_logs() as logged:
        await executor.aclose()
    assert left == ["first"]
    assert [entry["lifespan"] for entry in logged] == [f"{MODULE}:second"]

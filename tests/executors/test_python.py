"""The `python` executor: how functions are found, called, cancelled and kept from doing harm."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import math
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from executors.python import PythonConfig, PythonExecutor, register_executors
from executors.python.threads import Spent, Threads
from gateway import Attempt, Fatal, Result, Retry
from gateway.testing.executors import make_attempt
from tests.waiting import until

WAIT_S = 30.0


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    executor = PythonExecutor()
    await executor.start()
    yield executor
    await executor.aclose()


@pytest.fixture
def shop() -> Iterator[types.ModuleType]:
    """An importable, empty module."""
    module = types.ModuleType("shop_under_test")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


Call = Callable[..., Any]


@pytest.fixture
def call(executor: PythonExecutor, shop: types.ModuleType) -> Call:
    """Executes a function as if it were configured, bounded in time."""

    async def execute(function: Any, payload: bytes = b'{"a": 1}', on: PythonExecutor = executor) -> Any:
        shop.__dict__["f"] = function
        on.check(config := PythonConfig(callable="shop_under_test:f"))
        async with asyncio.timeout(WAIT_S):
            return (await on.execute(make_attempt(config, payload, number=3))).value

    return execute


async def test_sync_function_gets_the_parsed_payload(call: Call) -> None:
    assert await call(lambda payload: [payload, payload["a"] + 1]) == [{"a": 1}, 2]


async def test_async_function_runs_in_the_attempts_own_task(call: Call) -> None:
    async def function(payload: Any) -> Any:
        return asyncio.current_task()

    assert await call(function) is asyncio.current_task()


async def test_second_parameter_gets_the_attempt_when_required(call: Call) -> None:
    async def function(payload: Any, about: Attempt[Any]) -> Any:
        return about.number

    assert await call(function) == 3
    assert await call(lambda payload, about: about.payload.raw.decode()) == '{"a": 1}'


async def test_second_parameter_gets_the_attempt_when_named_context(call: Call) -> None:
    def function(payload: Any, context: Attempt[Any] | None = None) -> Any:
        return context.number if context else "none"

    assert await call(function) == 3


async def test_optional_parameter_of_another_name_is_left_alone(call: Call) -> None:
    assert await call(lambda payload, size=200: size) == 200
    assert await call(lambda *args: len(args)) == 1


async def test_dotted_attribute_is_followed(executor: PythonExecutor, shop: types.ModuleType) -> None:
    shop.__dict__["outer"] = types.SimpleNamespace(inner=types.SimpleNamespace(f=lambda payload: "found"))
    config = PythonConfig(callable="shop_under_test:outer.inner.f")
    assert (await executor.execute(make_attempt(config))).value == "found"


async def test_returned_result_is_passed_on(executor: PythonExecutor, shop: types.ModuleType) -> None:
    shop.__dict__["f"] = lambda payload: Result(1, meta={"m": 2})
    result = await executor.execute(make_attempt(PythonConfig(callable="shop_under_test:f")))
    assert result == Result(1, meta={"m": 2})


async def test_awaitable_of_a_sync_wrapper_is_awaited(call: Call) -> None:
    async def inner(payload: Any) -> Any:
        return "inner"

    assert await call(lambda payload: inner(payload)) == "inner"


async def test_async_partial_and_async_object_run_in_the_loop(call: Call) -> None:
    async def named(extra: int, payload: Any) -> Any:
        return extra, threading.current_thread() is threading.main_thread()

    class Callable:
        async def __call__(self, payload: Any) -> Any:
            return threading.current_thread() is threading.main_thread()

    assert await call(functools.partial(named, 7)) == (7, True)
    assert await call(Callable()) is True


async def test_payload_that_is_not_json_is_fatal(call: Call) -> None:
    with pytest.raises(Fatal, match="not JSON") as caught:
        await call(lambda payload: payload, b"a=1&b=2")
    assert caught.value.type == "payload"


async def test_payload_without_bytes_is_none(call: Call) -> None:
    assert await call(lambda payload: payload is None, b"") is True


@pytest.mark.parametrize("error", [Retry("later", after=9), Fatal("never"), KeyError("k")])
async def test_exceptions_pass_as_they_are(call: Call, error: Exception) -> None:
    def sync_function(payload: Any) -> Any:
        raise error

    async def async_function(payload: Any) -> Any:
        raise error

    for function in (sync_function, async_function):
        with pytest.raises(type(error)) as caught:
            await call(function)
        assert caught.value is error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("own")])
async def test_stray_exception_fails_the_attempt_only(call: Call, error: BaseException) -> None:
    def sync_function(payload: Any) -> Any:
        raise error

    async def async_function(payload: Any) -> Any:
        raise error

    for function in (sync_function, async_function):
        with pytest.raises(Retry, match=f"shop_under_test:f raised {type(error).__name__}") as caught:
            await call(function)
        assert caught.value.type == type(error).__name__.lower()


async def test_stop_iteration_in_a_thread_does_not_hang(call: Call) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await call(lambda payload: next(iter(())))


async def test_sync_function_sees_a_copy_of_the_callers_context(call: Call) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("outer")

    def function(payload: Any) -> Any:
        seen = variable.get()
        variable.set("inner")
        return seen

    assert await call(function) == "outer"
    assert variable.get() == "outer"


async def test_sync_functions_run_at_the_same_time(call: Call) -> None:
    meeting = threading.Barrier(8, timeout=WAIT_S)
    results = await asyncio.gather(*(call(lambda payload: meeting.wait()) for _ in range(8)))
    assert sorted(results) == list(range(8))


async def test_idle_threads_are_used_again(call: Call) -> None:
    before = threading.active_count()
    for _ in range(50):
        await call(lambda payload: None)
        await asyncio.sleep(0)
    assert threading.active_count() - before < 10


async def test_cancelled_sync_call_passes_at_once_and_frees_its_place(call: Call) -> None:
    executor = PythonExecutor(threads=1)
    release, begun = threading.Event(), asyncio.Event()
    loop, ran = asyncio.get_running_loop(), []

    def stuck(payload: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait(WAIT_S)
        ran.append("stuck went on")
        loop.call_soon_threadsafe(begun.set)

    task = asyncio.ensure_future(call(stuck, on=executor))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    queued = asyncio.ensure_future(call(lambda payload: ran.append("cancelled before it began"), on=executor))
    last = asyncio.ensure_future(call(lambda payload: ran.append("last"), on=executor))
    await asyncio.sleep(0)
    assert ran == [], "there is only one place, and it is taken"
    begun.clear()
    started = time.monotonic()
    task.cancel()
    queued.cancel()
    await asyncio.wait({task, queued}, timeout=WAIT_S)
    assert task.cancelled()
    assert queued.cancelled()
    assert time.monotonic() - started < WAIT_S / 2, "nobody waited for the thread"
    await last
    assert ran == ["last"], "the place was free though the thread was not"
    release.set()
    await asyncio.wait_for(begun.wait(), WAIT_S)
    assert ran == ["last", "stuck went on"]
    await executor.aclose()


async def test_wait_for_a_thread_is_not_the_attempts_time(shop: types.ModuleType) -> None:
    executor = PythonExecutor(threads=1)
    release, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def first(payload: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait(WAIT_S)

    shop.__dict__.update(first=first, second=lambda payload, context: context.remaining_s())
    moved: list[float] = []
    busy = asyncio.ensure_future(executor.execute(make_attempt(PythonConfig(callable="shop_under_test:first"))))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    attempt = make_attempt(PythonConfig(callable="shop_under_test:second"), timeout_s=20.0)
    attempt.moved, deadline = moved.append, attempt.deadline
    waiting = asyncio.ensure_future(executor.execute(attempt))
    await asyncio.sleep(0.3)  # which is to pass for nobody
    assert moved == [math.inf]
    release.set()
    result = await asyncio.wait_for(waiting, WAIT_S)
    assert attempt.deadline >= deadline + 0.2
    assert moved == [math.inf, attempt.deadline]
    assert isinstance(result, Result)
    assert result.value <= 20.0, "as the function is told"
    await busy
    await executor.aclose()


@dataclass
class Hanging:
    """Calls of functions by name that hang until they are let go, and are left behind at once."""

    threads: Threads
    go: threading.Event

    async def leave(self, function: str) -> None:
        assert self.threads.take(function)
        begun = threading.Event()

        def hang() -> None:
            begun.set()
            self.go.wait(WAIT_S)

        task = asyncio.ensure_future(self.threads.run(function, hang, ()))
        await asyncio.to_thread(begun.wait, WAIT_S)
        task.cancel()
        await asyncio.wait({task}, timeout=WAIT_S)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    threads = Threads(4, most_left=5, share=3)
    go = threading.Event()
    yield Hanging(threads, go)
    go.set()
    threads.close()


async def test_function_that_hangs_takes_no_more_threads_than_its_share(hanging: Hanging) -> None:
    for _ in range(3):
        assert hanging.threads.trouble() == ""
        await hanging.leave("hangs")
    assert not hanging.threads.take("hangs")
    assert "3 calls of hangs did not end with their attempts" in hanging.threads.trouble()
    for _ in range(4):
        assert hanging.threads.take("another")
    assert not hanging.threads.take("another"), "the places are as many as they were"


async def test_calls_left_behind_take_places_from_all_once_they_are_too_many(hanging: Hanging) -> None:
    for function in ("a", "a", "b", "b", "c", "c"):
        await hanging.leave(function)
    assert "6 calls of sync functions did not end with their attempts" in hanging.threads.trouble()
    assert [hanging.threads.take("d") for _ in range(4)] == [True, True, True, False]
    waiting = asyncio.ensure_future(hanging.threads.wait("d"))
    await asyncio.sleep(0)
    assert not waiting.done()
    hanging.go.set()
    await asyncio.wait_for(waiting, WAIT_S)
    await until(lambda: _holds(hanging.threads.trouble() == ""))
    assert hanging.threads.take("a") is False, "those that run are four"


async def _holds(fact: bool) -> bool:
    return fact


async def test_who_waits_for_a_place_is_told_when_its_function_is_spent(hanging: Hanging) -> None:
    for _ in range(2):
        await hanging.leave("hangs")
    for _ in range(3):
        assert hanging.threads.take("another")
    assert hanging.threads.take("hangs")
    waiting = asyncio.ensure_future(hanging.threads.wait("hangs"))
    bystander = asyncio.ensure_future(hanging.threads.wait("another"))
    task = asyncio.ensure_future(hanging.threads.run("hangs", hanging.go.wait, (WAIT_S,)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task, waiting, bystander}, timeout=WAIT_S)
    assert isinstance(waiting.exception(), Spent)
    assert bystander.exception() is None


async def test_aclose_does_not_wait_for_a_stuck_call(call: Call) -> None:
    executor = PythonExecutor()
    release, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stuck(payload: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait(WAIT_S)

    task = asyncio.ensure_future(call(stuck, on=executor))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    task.cancel()
    await asyncio.wait_for(executor.aclose(), WAIT_S / 2)
    assert not release.is_set()
    release.set()
    await asyncio.wait({task})


def test_stuck_call_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    (tmp_path / "stuck_module.py").write_text("import time\ndef f(payload): time.sleep(300)\n")
    script = """
        import asyncio
        from executors.python import PythonConfig, PythonExecutor
        from gateway.testing.executors import make_attempt

        async def main():
            executor = PythonExecutor()
            await executor.start()
            attempt = make_attempt(PythonConfig(callable="stuck_module:f"))
            try:
                async with asyncio.timeout(0.2):
                    await executor.execute(attempt)
            except TimeoutError:
                print("timed out")
            await executor.aclose()

        asyncio.run(main())
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "timed out\n", "")


async def test_working_directory_is_importable_from_the_first_check_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: PythonExecutor
) -> None:
    (tmp_path / "lies_in_the_working_directory.py").write_text("def f(payload): return 'here'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    config = PythonConfig(callable="lies_in_the_working_directory:f")
    executor.check(config)
    await executor.start()
    assert sys.path.count(str(tmp_path)) == 1
    assert (await executor.execute(make_attempt(config))).value == "here"


async def test_callable_is_looked_up_once(executor: PythonExecutor, shop: types.ModuleType) -> None:
    lookups: list[str] = []

    def look_up(name: str) -> Any:
        lookups.append(name)
        return lambda payload: "found"

    shop.__dict__["__getattr__"] = look_up
    for _ in range(3):
        await executor.execute(make_attempt(PythonConfig(callable="shop_under_test:dynamic")))
    assert lookups == ["dynamic"]


async def test_module_that_goes_missing_is_a_retry(executor: PythonExecutor) -> None:
    with pytest.raises(Retry, match="no module named 'no_such_shop'") as caught:
        await executor.execute(make_attempt(PythonConfig(callable="no_such_shop.images:resize")))
    assert caught.value.type == "import"


BROKEN = {
    "raises": "raise LookupError('broken on import')",
    "exits": "import sys; sys.exit(4)",
    "needs": "import a_dependency_that_is_not_installed",
    "plain": "value = 3\ndef three(a, b, c): ...\ndef keyword(payload, *, size): ...\n",
}


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("broken_raises:f", "'broken_raises' cannot be imported: LookupError: broken on import"),
        ("broken_exits:f", "'broken_exits' cannot be imported: SystemExit: 4"),
        ("broken_needs:f", "'broken_needs' cannot be imported: No module named 'a_dependency_that"),
        ("broken_absent:f", "no module named 'broken_absent' in /"),
        ("broken_plain.deeper:f", "cannot be imported|no module named 'broken_plain.deeper'"),
        ("broken_plain:absent", "module 'broken_plain' has no attribute 'absent'"),
        ("broken_plain:value.absent", "module 'broken_plain' has no attribute 'value.absent'"),
        ("broken_plain:tree", "has no attribute 'tree'; did you mean 'three'?"),
        ("broken_plain:value", "'value' is not callable but of type int"),
        ("broken_plain:three", r"broken_plain:three\(a, b, c\) cannot be called as f\(payload\)"),
        ("broken_plain:keyword", r"broken_plain:keyword\(payload, \*, size\) cannot be called"),
    ],
)
def test_check_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str) -> None:
    for name, text in BROKEN.items():
        (tmp_path / f"broken_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=message):
        PythonExecutor().check(PythonConfig(callable=place))


def test_check_accepts_a_builtin_without_signature() -> None:
    PythonExecutor().check(PythonConfig(callable="builtins:dict"))


@pytest.mark.parametrize("place", ["", "shop", "shop:", ":f", "shop:f:g", "shop..x:f", "shop:f()", "shop-x:f", "a b:f"])
def test_config_refuses_what_is_no_place(place: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"write \"package\.module:function\""):
        msgspec.convert({"callable": place}, PythonConfig)


def test_config_refuses_unknown_keys() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `calable`"):
        msgspec.convert({"callable": "a:b", "calable": "x"}, PythonConfig)


def test_module_registers_its_executor() -> None:
    assert [executor.name for executor in register_executors(settings=None)] == ["python"]
    assert hasattr(register_executors, "gateway_impl"), "pluggy does not see it"


async def test_call_that_gets_no_thread_fails_and_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, made = Threads(1), list[int]()

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short_of_threads:
        short_of_threads.setattr(threading.Thread, "start", start)
        assert threads.take("f")
        with pytest.raises(RuntimeError):
            await threads.run("f", made.append, (1,))
    assert threads.take("f"), "the place is free again"
    async with asyncio.timeout(WAIT_S):
        await threads.run("f", made.append, (2,))
    assert made == [2], "the next call has a thread, and is alone in it"
    threads.close()

"""The contract of executors, as tests to inherit; and attempts to run without a dispatcher.

    class TestMine(ExecutorContract):
        @pytest.fixture
        def executor(self) -> MyExecutor:
            return MyExecutor()

        @pytest.fixture
        def config_ok(self) -> MyConfig: ...      # succeeds
        @pytest.fixture
        def config_slow(self) -> MyConfig: ...    # runs for half a minute or more unless it is cancelled

and, for whichever of them the executor can be made to do, `config_retry` (raises Retry), `config_fatal` (raises
Fatal), `config_error` (raises anything else). Needs pytest and pytest-asyncio in auto mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
import orjson
import pytest
import structlog

from gateway.errors import AttemptError, Fatal, GatewayError, Retry
from gateway.executor import Attempt, Deferred, Executor, HttpClient, HttpResponse, Job, Payload, Result
from gateway.keys import JobIds
from gateway.results import result_of

C = TypeVar("C", bound=msgspec.Struct)


class NoHttp:
    """The client of an attempt that was given none: says so when it is used."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        max_body: int = 65536,
        tls: ssl.SSLContext | None = None,
    ) -> HttpResponse:
        raise GatewayError(f"{method} {url}: this attempt has no http client; pass make_attempt(…, http=client)")


def make_attempt(
    config: C,
    payload: bytes = b"{}",
    *,
    number: int = 1,
    max_attempts: int = 5,
    timeout_s: float = 5.0,
    target: str = "contract",
    key: str = "",
    tags: tuple[str, ...] = (),
    traceparent: str = "",
    http: HttpClient | None = None,
    report: Callable[[Any], None] = lambda value: None,
) -> Attempt[C]:
    """An attempt that stands alone, its deadline `timeout_s` from now on the running loop's clock.

    Nobody cancels it there: that is the runner's work.
    """
    now_ms = time.time_ns() // 1_000_000
    job_id = JobIds().new(now_ms, 0)
    return Attempt(
        job=Job(job_id, target, "default", key, max_attempts, now_ms, tags, traceparent),
        payload=Payload(payload),
        config=config,
        number=number,
        token=f"{number}:contract",
        deadline=asyncio.get_running_loop().time() + timeout_s,
        log=structlog.stdlib.get_logger().bind(job_id=job_id, target=target, attempt=number),
        http=http or NoHttp(),
        cancelled=asyncio.Event(),
        report=report,
    )


class ExecutorContract:
    """What every executor keeps; inherit, and give the fixtures that the module's docstring lists."""

    cancel_within_s: ClassVar[float] = 5.0
    """How soon a cancelled attempt is over: raise it for an executor that grants a grace."""

    answer_within_s: ClassVar[float] = 10.0
    """How soon `config_ok` succeeds, also when ten of them run at once."""

    started_within_s: ClassVar[float] = 0.3
    """How long `config_slow` is let run before it is cancelled, so that its work has begun."""

    payload: ClassVar[bytes] = b"{}"
    """What every attempt is given."""

    hold_within_s: ClassVar[float] = 0.2
    """How long `config_ok` may hold the event loop at most; what takes longer belongs in a thread."""

    repeats: ClassVar[int] = 20
    """How often `config_ok` is run to see whether it leaves descriptors open."""

    @pytest.fixture
    def executor(self) -> Executor[Any]:
        raise NotImplementedError("give a fixture `executor` that makes one")

    @pytest.fixture
    def config_ok(self) -> msgspec.Struct:
        raise NotImplementedError("give a fixture `config_ok` whose attempts succeed")

    @pytest.fixture
    def config_slow(self) -> msgspec.Struct:
        raise NotImplementedError("give a fixture `config_slow` whose attempts run until they are cancelled")

    @pytest.fixture
    def config_retry(self) -> msgspec.Struct | None:
        return None

    @pytest.fixture
    def config_fatal(self) -> msgspec.Struct | None:
        return None

    @pytest.fixture
    def config_error(self) -> msgspec.Struct | None:
        return None

    @pytest.fixture
    async def started(self, executor: Executor[Any]) -> AsyncIterator[Executor[Any]]:
        await executor.start()
        yield executor
        await executor.aclose()

    def test_name_is_text(self, executor: Executor[Any]) -> None:
        assert isinstance(executor.name, str)
        assert executor.name.strip() == executor.name != ""

    def test_config_is_a_strict_struct(self, executor: Executor[Any], config_ok: msgspec.Struct) -> None:
        assert issubclass(executor.Config, msgspec.Struct)
        assert isinstance(config_ok, executor.Config)
        assert executor.Config.__struct_config__.forbid_unknown_fields, "a misspelt key must stop start-up"

    async def test_check_accepts_a_config_that_works(self, started: Executor[Any], config_ok: msgspec.Struct) -> None:
        started.check(config_ok)

    async def test_execute_gives_a_result_that_is_json(self, started: Executor[Any], config_ok: msgspec.Struct) -> None:
        result = await self._run(started, config_ok)
        assert isinstance(result, Result), f"execute returned {type(result).__name__}, not a Result"
        result_of(result.value, f"{type(started).__name__}.execute")
        assert orjson.loads(orjson.dumps(result.meta)) == result.meta

    async def test_retry_passes(self, started: Executor[Any], config_retry: msgspec.Struct | None) -> None:
        error = await self._failure(started, _given(config_retry, "config_retry"))
        assert isinstance(error, Retry)
        _check_details(error)

    async def test_fatal_passes(self, started: Executor[Any], config_fatal: msgspec.Struct | None) -> None:
        error = await self._failure(started, _given(config_fatal, "config_fatal"))
        assert isinstance(error, Fatal)
        _check_details(error)

    async def test_other_exceptions_pass(self, started: Executor[Any], config_error: msgspec.Struct | None) -> None:
        error = await self._failure(started, _given(config_error, "config_error"))
        assert not isinstance(error, AttemptError)

    async def test_cancellation_passes_promptly(self, started: Executor[Any], config_slow: msgspec.Struct) -> None:
        task = await self._begin(started, config_slow)
        task.cancel()
        await asyncio.wait({task}, timeout=self.cancel_within_s)
        assert task.done(), f"still running {self.cancel_within_s:g} s after it was cancelled"
        assert task.cancelled()

    async def test_cancellation_leaves_no_task(self, started: Executor[Any], config_slow: msgspec.Struct) -> None:
        before = asyncio.all_tasks()
        task = await self._begin(started, config_slow)
        task.cancel()
        await asyncio.wait({task}, timeout=self.cancel_within_s)
        assert asyncio.all_tasks() - before == set()

    async def test_cancellation_leaves_no_process(
        self, started: Executor[Any], config_ok: msgspec.Struct, config_slow: msgspec.Struct
    ) -> None:
        """Beside those that an executor keeps for all of its attempts, which the first one may have started."""
        await self._run(started, config_ok)
        before = _children()
        task = await self._begin(started, config_slow)
        task.cancel()
        await asyncio.wait({task}, timeout=self.cancel_within_s)
        assert _children() - before == set()

    async def test_attempts_leave_no_descriptor(self, started: Executor[Any], config_ok: msgspec.Struct) -> None:
        await self._run(started, config_ok)
        before = _descriptors()
        for _ in range(self.repeats):
            await self._run(started, config_ok)
        assert _descriptors() <= before, f"{self.repeats} attempts left descriptors open"

    async def test_execute_does_not_block_the_event_loop(
        self, started: Executor[Any], config_ok: msgspec.Struct
    ) -> None:
        await self._run(started, config_ok)
        best_s = min([await self._longest_hold_s(started, config_ok) for _ in range(3)])
        assert best_s < self.hold_within_s, f"it held the event loop for {best_s:.2f} s; move what blocks to a thread"

    async def test_attempts_at_once_are_independent(
        self, started: Executor[Any], config_ok: msgspec.Struct, config_slow: msgspec.Struct
    ) -> None:
        slow = await self._begin(started, config_slow)
        doomed = await self._begin(started, config_slow)
        running = [asyncio.ensure_future(self._run(started, config_ok)) for _ in range(10)]
        doomed.cancel()
        results = await asyncio.gather(*running)
        assert all(isinstance(result, Result) for result in results)
        await asyncio.wait({doomed}, timeout=self.cancel_within_s)
        await asyncio.wait({slow}, timeout=self.started_within_s)
        assert not slow.done(), "an attempt ended because another was cancelled"
        slow.cancel()
        await asyncio.wait({slow, doomed}, timeout=self.cancel_within_s)
        assert slow.cancelled()
        assert doomed.cancelled()

    async def test_start_and_aclose_may_be_repeated(self, executor: Executor[Any], config_ok: msgspec.Struct) -> None:
        await executor.start()
        await executor.start()
        await self._run(executor, config_ok)
        await executor.aclose()
        await executor.aclose()

    async def test_aclose_without_start_does_nothing(self, executor: Executor[Any]) -> None:
        await executor.aclose()

    async def _run(self, executor: Executor[Any], config: msgspec.Struct) -> Result | Deferred:
        async with asyncio.timeout(self.answer_within_s):
            return await executor.execute(make_attempt(config, self.payload, timeout_s=self.answer_within_s))

    async def _longest_hold_s(self, executor: Executor[Any], config: msgspec.Struct) -> float:
        """The longest that the loop did nothing else while an attempt ran."""
        longest_s, loop = 0.0, asyncio.get_running_loop()
        running = asyncio.ensure_future(self._run(executor, config))
        while not running.done():
            since_s = loop.time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, loop.time() - since_s)
        await running
        return longest_s

    async def _failure(self, executor: Executor[Any], config: msgspec.Struct) -> Exception:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
            await self._run(executor, config)
        return caught.value

    async def _begin(self, executor: Executor[Any], config: msgspec.Struct) -> asyncio.Task[Result | Deferred]:
        """A task whose attempt is under way."""
        task = asyncio.ensure_future(executor.execute(make_attempt(config, self.payload, timeout_s=60.0)))
        await asyncio.wait({task}, timeout=self.started_within_s)
        assert not task.done(), f"config_slow ended within {self.started_within_s:g} s: {task}"
        return task


def _children() -> set[int]:
    """The processes that this one has started and not waited for; only Linux can say."""
    found: set[int] = set()
    for listing in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, listing.read_text().split()))
    return found


def _descriptors() -> int:
    """How many descriptors are open; 0 where the system does not say."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def _given(config: msgspec.Struct | None, fixture: str) -> msgspec.Struct:
    if config is None:
        pytest.skip(f"no fixture {fixture}")
    return config


def _check_details(error: AttemptError) -> None:
    assert isinstance(error.type, str)
    orjson.dumps(error.details)

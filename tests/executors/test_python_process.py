"""The `python` executor with `isolation = "process"`: calls that are killed, crash, leak and print, and harm nobody."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog

from executors.python import PythonConfig, PythonExecutor
from gateway import Duration, Fatal, Result, Retry
from gateway.testing.executors import make_attempt
from tests.executors.runs import children, wait_for_death
from tests.executors.values import plain, shown

WAIT_S = 60.0
MODULE = """
import asyncio, os, signal, subprocess, sys, time
import gateway
from gateway import Context, Fatal, Retry

STATE = []

@gateway.lifespan
async def clients():
    STATE.append("entered")
    yield {"client": "c"}
    print("left the lifespan", flush=True)

def pid(payload): return os.getpid()
def power(payload): return {"n": 2**payload}
def add(a: int, b: int = 1) -> int: return a + b
async def later(payload): await asyncio.sleep(0); return ["later", payload]
def about(payload, context: Context):
    context.progress({"done": 1})
    context.heartbeat()
    context.log.info("from the process", width=3)
    return [context.attempt, context.job.target, context.job.key, context.state["client"], context.cancelled, STATE]
def bad(payload):
    match payload:
        case "retry": raise Retry("later", after=7, details={"a": 1})
        case "huge": raise Retry("much later", after=10**400)
        case "generator": raise GeneratorExit
        case "fatal": raise Fatal("never", type="refused")
        case "error": raise KeyError("k")
        case "exit": sys.exit(4)
        case "nan": return float("nan")
        case "object": return {"a": [1, object()]}
        case "_exit": os._exit(9)
        case "kill": os.kill(os.getpid(), signal.SIGKILL)
        case "http": raise RuntimeError("unreachable")
def hang(payload, context):
    child = subprocess.Popen(["sleep", "300"])
    daemon = subprocess.Popen(["setsid", "sleep", "301"])
    context.progress([os.getpid(), child.pid, daemon.pid])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(300)
def silent(payload): time.sleep(300)
def leak(payload): return [os.getpid(), subprocess.Popen(["sleep", "300"]).pid]
def prints(payload): print("printed by the function", flush=True); return input_ended()
def input_ended():
    try: return input()
    except EOFError: return "no input"
def wants_http(payload, context): return context.http
def asks_attempt(payload, attempt: gateway.Attempt): ...
"""

Run = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "process_functions.py").write_text(MODULE)
    (tmp_path / "process_broken.py").write_text(
        "import os\nif os.environ.get('BREAK'): raise OSError('no gpu')\ndef f(payload): ..."
    )
    (tmp_path / "process_slow.py").write_text(
        "import os, time\n"
        "if os.environ.get('SLOW'): time.sleep(float(os.environ['SLOW']))\n"
        "def left(payload, context): return context.remaining_s()"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    executor = PythonExecutor()
    await executor.start()
    yield executor
    await executor.aclose()
    assert children(os.getpid()) == [] or all(b"supervisor" not in _cmdline(pid) for pid in children(os.getpid()))


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def run(executor: PythonExecutor) -> Run:
    async def execute(name: str, payload: bytes = b"{}", *, attempt: Any = None, **config: Any) -> Any:
        settings = PythonConfig(callable=f"process_functions:{name}", isolation="process", **config)
        executor.check(settings)
        async with asyncio.timeout(WAIT_S):
            return shown(await executor.execute(make_attempt(settings, payload, **(attempt or {})))).value

    return execute


async def test_calls_run_in_a_process_that_is_used_again_and_recycled(run: Run) -> None:
    pids = [await run("pid", recycle_after=2, processes=1) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    assert os.getpid() not in pids
    assert await run("add", b'{"a": 2}', recycle_after=2) == 3
    assert await run("later", b"[5]") == ["later", [5]]
    with pytest.raises(Fatal, match=r"does not fit process_functions:add: .*`int`, got `str` - at `\$.a`"):
        await run("add", b'{"a": "x"}')


async def test_context_speaks_to_the_dispatcher(run: Run) -> None:
    reported: list[Any] = []
    attempt = {"number": 3, "target": "resize", "key": "k", "report": lambda value: reported.append(plain(value))}
    with structlog.testing.capture_logs() as logged:
        result = await run("about", attempt=attempt)
    assert result == [3, "resize", "k", "c", False, ["entered"]]
    assert reported == [{"done": 1}]
    (line,) = [entry for entry in logged if entry["event"] == "from the process"]
    assert (line["log_level"], line["width"], line["target"], line["attempt"]) == ("info", 3, "resize", 3)
    with pytest.raises(Retry, match="no http client; make one in a lifespan"):
        await run("wants_http")


async def test_import_is_neither_the_attempts_time_nor_its_heartbeats(
    executor: PythonExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW", "3")
    config = PythonConfig(callable="process_slow:left", isolation="process", heartbeat=Duration(2.0))
    attempt = make_attempt(config, timeout_s=2.0)
    async with asyncio.timeout(WAIT_S):
        left_s = shown(await executor.execute(attempt)).value
    assert 0.0 < left_s <= 2.0


async def test_import_that_hangs_is_told_of_and_killed(
    executor: PythonExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW", "300")
    monkeypatch.setattr("executors.python.pool.START_S", 1.0)
    config = PythonConfig(callable="process_slow:left", isolation="process")
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(Retry, match="process_slow:left was not imported within 1 s") as caught:
            await executor.execute(make_attempt(config))
    assert caught.value.type == "import"


ANY_JSON = "dict, list, str, int, float, bool or None"
FAILURES: dict[str, tuple[type[Exception], str, str]] = {
    "retry": (Retry, "retry", "later"),
    "huge": (Retry, "retry", "much later"),
    "generator": (Retry, "generatorexit", "raised GeneratorExit()"),
    "fatal": (Fatal, "refused", "never"),
    "error": (Retry, "KeyError", "'k'"),
    "exit": (Retry, "systemexit", "raised SystemExit(4)"),
    "nan": (Fatal, "result", "process_functions:bad returned NaN or an infinity, which is not JSON; return None"),
    "object": (
        Fatal,
        "result",
        f"process_functions:bad returned object at $.a[1], which is not JSON; return {ANY_JSON}",
    ),
    "_exit": (Retry, "process", "the process of process_functions:bad exited with code 9 in the middle of the call"),
    "kill": (Retry, "process", "the process of process_functions:bad was killed by SIGKILL"),
}


async def test_every_way_to_fail_is_told_and_the_next_call_goes_well(run: Run) -> None:
    told: dict[str, Any] = {}
    for how in FAILURES:
        with pytest.raises((Retry, Fatal)) as caught:
            await run("bad", f'"{how}"'.encode(), processes=1)
        told[how] = caught.value
    assert {how: (type(error), error.type, error.message) for how, error in told.items()} == FAILURES
    assert (told["retry"].after, told["retry"].details) == (7, {"a": 1})
    assert told["error"].details["traceback"][-1].startswith("process_functions.py:")
    assert await run("bad", b"null", processes=1) is None


@pytest.mark.parametrize("end", ["cancelled", "silent"])
async def test_call_that_is_ended_is_killed_with_all_that_it_started(run: Run, end: str) -> None:
    said: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    heartbeat = Duration(1.5) if end == "silent" else None
    task = asyncio.ensure_future(
        run("hang", attempt={"report": lambda value: said.set_result(plain(value))}, heartbeat=heartbeat)
    )
    pids = await asyncio.wait_for(said, WAIT_S)
    began_s = time.monotonic()
    if end == "cancelled":
        task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    assert task.cancelled() is (end == "cancelled")
    if end == "silent":
        assert "no sign of life" in str(task.exception())
    assert time.monotonic() - began_s < 10
    assert [pid for pid in pids if is_alive(pid)] == [], "when the attempt is over, so is the call"


async def test_process_that_a_call_left_behind_is_killed_soon(run: Run) -> None:
    worker, child = await run("leak")
    for pid in (worker, child):
        await wait_for_death(pid)
    assert (await run("leak"))[0] != worker


async def test_what_a_function_prints_is_no_message_and_goes_where_ours_does(
    run: Run, executor: PythonExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await run("prints") == "no input"
    await executor.aclose()
    assert capfd.readouterr().err == "printed by the function\nleft the lifespan\n"


async def test_no_more_calls_than_processes_run_at_once(run: Run) -> None:
    pids = await asyncio.gather(*(run("pid", processes=2) for _ in range(6)))
    assert 1 <= len(set(pids)) <= 2


async def test_module_that_only_fails_in_the_process_is_a_retry_that_says_why(executor: PythonExecutor) -> None:
    broken = PythonExecutor(environ={**os.environ, "BREAK": "1"})
    config = PythonConfig(callable="process_broken:f", isolation="process")
    broken.check(config)
    for _ in range(2):
        with pytest.raises(Retry, match="'process_broken' cannot be imported: OSError: no gpu") as caught:
            await asyncio.wait_for(broken.execute(make_attempt(config)), WAIT_S)
        assert caught.value.type == "import"
    await broken.aclose()


def test_what_cannot_be_isolated_so_stops_the_start() -> None:
    executor = PythonExecutor()
    with pytest.raises(ValueError, match="later is async and runs in the event loop; leave isolation out"):
        executor.check(PythonConfig(callable="process_functions:later", isolation="thread"))
    with pytest.raises(ValueError, match="asks_attempt asks for the Attempt, which no process of its own has"):
        executor.check(PythonConfig(callable="process_functions:asks_attempt", isolation="process"))


async def test_result_of_a_process_keeps_its_digits(executor: PythonExecutor) -> None:
    config = PythonConfig(callable="process_functions:power", isolation="process")
    result = await asyncio.wait_for(executor.execute(make_attempt(config, b"70")), WAIT_S)
    assert isinstance(result, Result)
    assert orjson.dumps(result.value) == b'{"n":%d}' % 2**70


async def test_idle_process_ends_after_a_while(executor: PythonExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executors.python.executor.IDLE_S", 0.05)
    config = PythonConfig(callable="process_functions:pid", isolation="process")
    pid = shown(await asyncio.wait_for(executor.execute(make_attempt(config)), WAIT_S)).value
    await wait_for_death(pid)

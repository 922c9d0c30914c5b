"""Worker processes from the dispatcher's side: one for each call at a time, killed when it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import structlog

from gateway import Attempt, Fatal, Pulse, Retry, processes, results

from .config import PythonConfig
from .messages import (
    Beat,
    Begin,
    Call,
    Failed,
    FromWorker,
    Logged,
    Progress,
    Raised,
    Ready,
    Returned,
    encode,
    from_worker,
)

IDLE_S = 60.0
"""How long a process waits for its next call before it ends."""

START_S = 300.0
"""How long a process may take to start, import its module and enter its lifespans: one that hangs must be told of."""

_FINISH_S = 5.0
_MAIN = "from gateway.registry.builtins import import_builtin; import_builtin('executors', 'python.worker').main()"
_ARGV = (sys.executable, "-P", "-c", _MAIN)

log = structlog.get_logger("gateway.executors.python")


class Process:
    """One worker process, and the one call that it is in."""

    def __init__(self, launcher: processes.Launcher, config: PythonConfig, modules: Sequence[str]) -> None:
        self._place = config.callable
        self._talk = processes.Talk(launcher.spawn(), heard=self._hear, printed=_print)
        self._modules = tuple(modules)
        self._answer: asyncio.Future[FromWorker] | None = None
        self._attempt: Attempt[PythonConfig] | None = None
        self._pulse: Pulse | None = None
        self.is_ready = False
        self.calls = 0
        self.left = False
        """Whether it must not be used again: it has failed, or what a call started is still there."""

    @property
    def ended(self) -> bool:
        return self._talk.ended.done()

    def start(self, environ: Mapping[str, str]) -> None:
        spec = {"argv": _ARGV, "env": dict(environ), "cwd": None, "grace_s": 0.0}
        self._talk.begin(spec)
        self._talk.say(encode(Begin(self._place, self._modules)))

    async def wait_ready(self) -> None:
        """Returns once it can be called; raises Retry if it never can."""
        try:
            async with asyncio.timeout(START_S):
                answer = await self._answered()
        except TimeoutError as exc:
            raise Retry(f"{self._place} was not imported within {START_S:g} s", type="import") from exc
        if isinstance(answer, Failed):
            self.left = True
            raise Retry(answer.message, type="import")
        self.is_ready = True

    async def call(self, attempt: Attempt[PythonConfig], pulse: Pulse) -> Any:
        """What the function returns for an attempt; raises what it raised, or Retry if the process ended."""
        self.calls += 1
        self._attempt, self._pulse = attempt, pulse
        try:
            self._talk.say(encode(Call(attempt.job, attempt.payload.raw, attempt.number, attempt.remaining_s())))
            return self._outcome(await self._answered())
        finally:
            self._attempt = self._pulse = None

    async def kill(self) -> None:
        """Ends it at once, and all that it has started."""
        try:
            if not await self._talk.kill():
                log.warning("python.not_gone", callable=self._place)
        finally:
            self._talk.close()

    async def finish(self) -> None:
        """Lets it leave its lifespans, then ends what is left of it."""
        try:
            self._talk.finish()
            await asyncio.wait({self._talk.ended}, timeout=_FINISH_S)
        finally:
            await self.kill()

    async def _answered(self) -> FromWorker:
        self._answer = asyncio.get_running_loop().create_future()
        either: set[asyncio.Future[Any]] = {self._answer, self._talk.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._answer.done():
            await asyncio.wait({self._answer}, timeout=0.1)  # what it said last may still be in the pipe
        if not self._answer.done():
            raise Retry(self._end(), type="process")
        return self._answer.result()

    def _end(self) -> str:
        report = self._talk.control.report
        if report.get("signal"):
            return f"the process of {self._place} was killed by {signal.Signals(report['signal']).name}"
        if "exit_code" in report:
            return f"the process of {self._place} exited with code {report['exit_code']} in the middle of the call"
        return f"the process of {self._place} was lost"

    def _outcome(self, answer: FromWorker) -> Any:
        if isinstance(answer, Returned):
            self.left = answer.left
            return results.verbatim(answer.result.encode())
        assert isinstance(answer, Raised)
        self.left = answer.left
        details = orjson.loads(answer.details)
        if answer.kind == "fatal":
            raise Fatal(answer.message, type=answer.type, details=details)
        raise Retry(answer.message, type=answer.type, details=details, after=answer.after)

    def _hear(self, data: bytes) -> None:
        message = from_worker(data)
        if isinstance(message, (Ready, Failed, Returned, Raised)):
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
        elif isinstance(message, Logged):
            fields = orjson.loads(message.fields)
            fields.pop("level", None)
            getattr(log, message.level, log.info)(message.event, **fields)
        elif self._attempt is not None and self._pulse is not None:
            self._pulse.beat()
            if isinstance(message, Progress):
                self._attempt.progress(results.verbatim(message.value.encode()))
            else:
                assert isinstance(message, Beat)


class Pool:
    """The processes of one target: at most `processes`, each for `recycle_after` calls."""

    def __init__(
        self,
        launcher: processes.Launcher,
        config: PythonConfig,
        *,
        modules: Sequence[str],
        environ: Mapping[str, str],
        idle_s: float = IDLE_S,
    ) -> None:
        self._launcher = launcher
        self._config = config
        self._modules = modules
        self._environ = environ
        self._idle_s = idle_s
        self._gate = asyncio.Semaphore(config.processes)
        self._idle: dict[Process, asyncio.TimerHandle] = {}
        self._finishing: set[asyncio.Task[None]] = set()

    async def run(self, attempt: Attempt[PythonConfig], pulse: Pulse) -> Any:
        """The call's result; a call that is cancelled, or gives no sign of life, is killed before this returns.

        The wait for a process, and for one to start, is not the attempt's time, nor its heartbeat's: both begin with
        the call.
        """
        if self._gate.locked():
            await attempt.untimed(self._gate.acquire())
        else:
            await self._gate.acquire()
        try:
            return await self._run(attempt, pulse)
        finally:
            self._gate.release()

    async def _run(self, attempt: Attempt[PythonConfig], pulse: Pulse) -> Any:
        process = self._take()
        try:
            if not process.is_ready:
                await attempt.untimed(process.wait_ready())
            work = process.call(attempt, pulse)
            value = await (work if self._config.heartbeat is None else pulse.guard(work))
        except BaseException as exc:
            answered = process.is_ready or process.left
            if isinstance(exc, Exception) and answered and not process.ended and not pulse.expired:
                self._give_back(process)
            else:
                await process.kill()
            raise
        self._give_back(process)
        return value

    async def aclose(self) -> None:
        """Ends every process that is in no call, in good order."""
        for process, timer in list(self._idle.items()):
            timer.cancel()
            self._finish(process)
        self._idle.clear()
        if self._finishing:
            await asyncio.wait(self._finishing)

    def _take(self) -> Process:
        while self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
            if not process.ended:
                return process
            self._finish(process)
        process = Process(self._launcher, self._config, self._modules)
        process.start(self._environ)
        return process

    def _give_back(self, process: Process) -> None:
        if process.ended or process.left or process.calls >= self._config.recycle_after:
            self._finish(process)
            return
        self._idle[process] = asyncio.get_running_loop().call_later(self._idle_s, self._expire, process)

    def _expire(self, process: Process) -> None:
        del self._idle[process]
        self._finish(process)

    def _finish(self, process: Process) -> None:
        task = asyncio.ensure_future(process.finish())
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)


def _print(chunk: bytes) -> None:
    """What a function prints appears where the dispatcher's own output does."""
    with contextlib.suppress(OSError):
        os.write(2, chunk)

"""Runs child processes for as long as it is asked to: restarts those that die, and stops them all in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import structlog

from gateway.ties import die_with_parent, kill_session, session_of

log = structlog.get_logger(__name__)

SUPERVISOR_PID = "GATEWAY_SUPERVISOR_PID"
"""The variable that tells a child whose it is."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_signals() -> list[signal.Signals]:
    """What asks a process to stop. HUP, of a terminal that closes, is none where whoever started it has it ignored, as
    nohup has."""
    return [sig for sig in STOP_SIGNALS if sig is not signal.SIGHUP or signal.getsignal(sig) is not signal.SIG_IGN]


@dataclass(frozen=True, slots=True)
class Child:
    """A program to keep running; `env` is added to ours. Children of a lower `stage` are told to stop first."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the supervisor waits for what; all in seconds.

    A child that dies is started again after `base_s`, doubled up to `cap_s`, and from `base_s` anew once it lived for
    `healthy_s`. At a stop the next stage follows when the one before is gone or after `stage_s`; children have
    `drain_s` in all, and `hurry_s` from a second signal on, before they are killed. What ends with the child that
    started it, as a helper at the end of a pipe does, has `leave_s` to do so.
    """

    base_s: float = 0.2
    cap_s: float = 10.0
    healthy_s: float = 30.0
    stage_s: float = 1.0
    drain_s: float = 27.0
    hurry_s: float = 5.0
    leave_s: float = 0.5


class Supervisor:
    """Owns the processes of `children`; made for one `run`."""

    def __init__(
        self,
        children: Sequence[Child],
        *,
        patience: Patience = Patience(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not children or len({child.name for child in children}) != len(children):
            raise ValueError("a supervisor needs children, each with a name of its own")
        self._children = tuple(children)
        self._patience = patience
        self._clock = clock
        self._stopping = asyncio.Event()
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._signals = 0
        self._killer: asyncio.TimerHandle | None = None
        self._exit_code = 0

    async def run(self) -> int:
        """Runs until TERM, INT or HUP, or a child's configuration error; the exit code.

        0: every child stopped in time; 1: some had to be killed; 78 (EX_CONFIG): a child's configuration is wrong.
        Cancelled, it kills its children.
        """
        loop = asyncio.get_running_loop()
        heeded = [sig for sig in STOP_SIGNALS if signal.getsignal(sig) is not signal.SIG_IGN]
        for sig in heeded:
            loop.add_signal_handler(sig, self._on_signal, sig)
        try:
            async with asyncio.TaskGroup() as group:
                keepers = {child.name: group.create_task(self._keep(child)) for child in self._children}
                group.create_task(self._wind_down(keepers))
        finally:
            if self._killer is not None:
                self._killer.cancel()
            for sig in heeded:
                loop.remove_signal_handler(sig)
        return self._exit_code

    def _on_signal(self, sig: signal.Signals) -> None:
        self._signals += 1
        if self._signals == 1:
            log.info("stopping; a second signal stops at once", signal=sig.name)
            self._stopping.set()
        elif self._signals == 2:
            log.warning("stopping at once", signal=sig.name)
            self._send(signal.SIGTERM, self._running)
            self._killer = asyncio.get_running_loop().call_later(self._patience.hurry_s, self._kill)
        else:
            self._kill()

    async def _keep(self, child: Child) -> None:
        failures, ran = 0, False
        while not self._stopping.is_set():
            began = self._clock()
            code = await self._run_once(child)
            if self._stopping.is_set():
                return
            if code == os.EX_CONFIG and not ran:
                log.error("child has a configuration error; stopping everything", child=child.name, exit_code=code)
                self._exit_code = code
                self._stopping.set()
                return
            # one that has run was configured well: what it meets at a later start may pass, such as a port still held
            ran = ran or code != os.EX_CONFIG
            failures = 1 if self._clock() - began >= self._patience.healthy_s else failures + 1
            delay_s = min(self._patience.cap_s, self._patience.base_s * 2.0 ** min(failures - 1, 32))
            log.warning("child ended; starting it again", child=child.name, delay_s=delay_s, **_ending(code))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)

    async def _run_once(self, child: Child) -> int:
        """The exit code, negative for a signal; a program that is not there counts as a configuration error."""
        try:
            process = await asyncio.create_subprocess_exec(
                *child.argv,
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **child.env, SUPERVISOR_PID: str(os.getpid())},
                start_new_session=True,
            )
        except OSError as exc:
            log.error("child cannot be started", child=child.name, program=child.argv[0], error=exc.strerror)
            return os.EX_CONFIG if isinstance(exc, (FileNotFoundError, PermissionError)) else os.EX_OSERR
        self._running[child.name] = process
        try:
            log.info("child started", child=child.name, pid=process.pid)
            if self._stopping.is_set():
                self._send(signal.SIGTERM, [child.name])
            code = await process.wait()
            await self._end_session(child, process.pid)
            return code
        finally:
            if process.returncode is None:
                self._send(signal.SIGKILL, [child.name])
                await process.wait()
            del self._running[child.name]

    async def _end_session(self, child: Child, leader: int) -> None:
        try:
            until = asyncio.get_running_loop().time() + self._patience.leave_s
            while session_of(leader) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110  nothing tells it
                await asyncio.sleep(0.02)
        finally:
            if left := kill_session(leader):
                log.warning("child left processes behind; killed them", child=child.name, pids=left)

    async def _wind_down(self, keepers: Mapping[str, asyncio.Task[None]]) -> None:
        await self._stopping.wait()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience.drain_s
        for stage in sorted({child.stage for child in self._children}):
            if self._signals > 1:
                break
            names = [child.name for child in self._children if child.stage == stage]
            self._send(signal.SIGTERM, names)
            await asyncio.wait([keepers[name] for name in names], timeout=self._patience.stage_s)
        await asyncio.wait(keepers.values(), timeout=max(0.0, until - loop.time()))
        self._kill()

    def _kill(self) -> None:
        if self._running:
            log.error("children did not stop in time; killing them", children=sorted(self._running))
            self._exit_code = self._exit_code or 1
            self._send(signal.SIGKILL, self._running)

    def _send(self, sig: signal.Signals, names: Iterable[str]) -> None:
        for name in names:
            if (process := self._running.get(name)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(sig)


def follow_supervisor(environ: MutableMapping[str, str]) -> bool:
    """Ties this process to the supervisor named in `environ`: whether there is one; what a child program calls first.

    Takes the variable out, since a program that this process starts is no child of that supervisor.
    """
    pid = environ.pop(SUPERVISOR_PID, "")
    if pid.isdigit():
        die_with_parent(int(pid))
    return pid.isdigit()


def _ending(code: int) -> dict[str, int | str]:
    if code >= 0:
        return {"exit_code": code}
    with contextlib.suppress(ValueError):
        return {"signal": signal.Signals(-code).name}
    return {"signal": -code}

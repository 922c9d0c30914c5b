"""What the `command` executor promises."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from gateway import Attempt, Executor, Result

from .child import Child, Ending
from .config import CommandConfig
from .environment import build_environment
from .launcher import Launcher
from .verdict import MAX_STDERR, judge


class CommandExecutor(Executor[CommandConfig]):
    """Runs a program: the payload's bytes verbatim on its standard input, its standard output as the result.

    Output that is JSON is the result, other output its text (UTF-8, with replacement), white space None. A program
    that cannot be started at all is fatal, as are `fatal_codes`; any other exit code but 0, or a signal, is a retry.
    The program runs in a session of its own, with an environment of `PATH`, what the target adds and `GATEWAY_JOB_*`.
    When it ends, whatever it started is killed, daemons included; when the attempt is cancelled, it gets SIGTERM and,
    after `grace`, SIGKILL; when the dispatcher is killed, SIGKILL. A program that runs as the same user can read
    `/proc/<pid>/environ` of the dispatcher: what must stay from it needs another user.
    """

    name: ClassVar[str] = "command"
    Config: ClassVar[type[msgspec.Struct]] = CommandConfig

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._launcher = Launcher(environ)

    def check(self, config: CommandConfig) -> None:
        """Raises ValueError if the working directory or the program is not there."""
        if config.cwd is not None and not os.path.isdir(config.cwd):
            raise ValueError(f"cwd: no directory {config.cwd!r}")
        program = config.argv[0]
        path = config.env.get("PATH", self._environ.get("PATH", os.defpath))
        if "/" in program:
            program = os.path.join(config.cwd or "", program)
        if shutil.which(program, path=path) is None:
            raise ValueError(f"argv: no program {config.argv[0]!r} that may be run, PATH is {path}")

    async def execute(self, attempt: Attempt[CommandConfig]) -> Result:
        return judge(await self._run(attempt), attempt.config)

    async def aclose(self) -> None:
        """Ends the process that starts the commands, and any command that is left."""
        await self._launcher.aclose()

    async def _run(self, attempt: Attempt[CommandConfig]) -> Ending:
        config = attempt.config
        environment = build_environment(attempt, self._environ)
        spec = {"argv": config.argv, "env": environment, "cwd": config.cwd, "grace_s": float(config.grace)}
        child = Child(self._launcher.spawn(), max_output=config.max_output, max_stderr=MAX_STDERR)
        try:
            ending = await child.run(spec, attempt.payload.raw)
            _warn_unless(await child.sweep(), attempt)
        except asyncio.CancelledError:
            _warn_unless(await child.stop(config.grace), attempt)
            raise
        finally:
            child.close()
        return ending


def _warn_unless(gone: bool, attempt: Attempt[CommandConfig]) -> None:
    if not gone:
        attempt.log.warning("command.not_gone", job_id=attempt.job.job_id, program=attempt.config.argv[0])

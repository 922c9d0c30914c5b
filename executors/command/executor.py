"""What the `command` executor promises."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from gateway import Attempt, Executor, Fatal, Pulse, Result, Retry, processes

from .config import TEMP, CommandConfig
from .environment import build_environment
from .speech import Speech
from .user import User, find_user
from .verdict import MAX_STDERR, judge


class CommandExecutor(Executor[CommandConfig]):
    """Runs a program: the payload's bytes verbatim on its standard input, its standard output as the result.

    Output that is JSON is the result, other output its text (UTF-8, with replacement), white space None. A program
    that cannot be started at all is fatal, as are `fatal_codes`; any other exit code but 0, or a signal, is a retry.
    The program runs in a session of its own, with an environment of `PATH`, what the target adds and `GATEWAY_JOB_*`.
    When it ends, whatever it started is killed, daemons included; when the attempt is cancelled, it gets SIGTERM and,
    after `grace`, SIGKILL; when the dispatcher is killed, SIGKILL. A program that runs as the same user can read
    `/proc/<pid>/environ` of the dispatcher: what must stay from it needs another `user`.
    """

    name: ClassVar[str] = "command"
    Config: ClassVar[type[msgspec.Struct]] = CommandConfig

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._launcher = processes.Launcher(environ)
        self._users: dict[str, User] = {}

    def check(self, config: CommandConfig) -> None:
        """Raises ValueError if the user, the working directory or the program is not there."""
        if config.user is not None:
            user = self._user(config)
            if os.geteuid() not in (0, user.uid if user is not None else 0):
                raise ValueError(f"user: to run commands as {config.user!r}, the dispatcher must run as root")
        if config.cwd not in (None, TEMP) and not os.path.isdir(config.cwd):
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

    def ending_s(self, config: CommandConfig) -> float:
        return config.grace + processes.SWEEP_S + super().ending_s(config)

    async def _run(self, attempt: Attempt[CommandConfig]) -> processes.Ending:
        config = attempt.config
        spec = self._spec(attempt)
        pulse = Pulse(config.heartbeat)
        child = processes.Child(
            self._launcher.spawn(),
            max_output=config.max_output,
            max_stderr=2 * MAX_STDERR,  # so that no secret is cut where what is kept begins
            said=Speech(attempt, pulse).hear,
        )
        try:
            work = child.run(spec, attempt.payload.raw)
            ending = await (work if config.heartbeat is None else pulse.guard(work))
            _warn_unless(await child.sweep(), attempt)
        except (asyncio.CancelledError, Retry):
            _warn_unless(await child.stop(config.grace), attempt)
            raise
        finally:
            child.close()
        return ending

    def _spec(self, attempt: Attempt[CommandConfig]) -> dict[str, Any]:
        """What the supervisor is to run."""
        config = attempt.config
        try:
            user = self._user(config)
        except ValueError as exc:
            raise Fatal(str(exc), type="launch") from exc
        return {
            "argv": config.argv,
            "env": build_environment(attempt, self._environ, user),
            "cwd": config.cwd,
            "grace_s": float(config.grace),
            "temp": config.temp,
            "files": {name: secret.reveal() for name, secret in config.secret_files.items()},
            "user": user.numbers() if user is not None and os.geteuid() == 0 else None,
            "umask": int(config.umask, 8),
            "rlimits": config.rlimits.named() if config.rlimits is not None else {},
        }

    def _user(self, config: CommandConfig) -> User | None:
        """Looked up once: a directory service may take its time."""
        if config.user is None:
            return None
        found = self._users.get(config.user)
        if found is None:
            found = self._users[config.user] = find_user(config.user)
        return found


def _warn_unless(gone: bool, attempt: Attempt[CommandConfig]) -> None:
    if not gone:
        attempt.log.warning("command.not_gone", job_id=attempt.job.job_id, program=attempt.config.argv[0])

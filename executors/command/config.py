"""The part of a target that says which program to run, and how."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from gateway import Duration, Secret

MAX_OUTPUT = 16 * 1024 * 1024
MAX_GRACE_S = 60.0
TEMP = "$TMPDIR"

_UMASK = re.compile(r"0?[0-7]{1,3}\Z", re.ASCII)
Count = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Codes = tuple[Annotated[int, msgspec.Meta(ge=1, le=255)], ...]


class Rlimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the system lets each process of a command have: `memory` and `file_size` in bytes, `cpu` in seconds.

    `processes` counts those of its user; root's are not limited.
    """

    memory: Count | None = None
    cpu: Count | None = None
    open_files: Count | None = None
    processes: Count | None = None
    file_size: Count | None = None

    def named(self) -> dict[str, int]:
        """Those that are set, by the system's names."""
        names = {
            "as": self.memory,
            "cpu": self.cpu,
            "nofile": self.open_files,
            "nproc": self.processes,
            "fsize": self.file_size,
        }
        return {name: value for name, value in names.items() if value is not None}


class CommandConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program and its arguments, never a shell line.

    The environment is `PATH`, the dispatcher's variables named in `pass_env`, `env`, `secrets` and `GATEWAY_JOB_*`;
    `cwd` is the dispatcher's unless given. Of the output the last `max_output` bytes are kept. Exit codes: 0 and
    `success_codes` succeed, `fatal_codes` are never retried, others are; with `retry_codes` only those are. At a
    timeout the program gets `grace` seconds between SIGTERM and SIGKILL.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    secrets: dict[str, Secret] = {}
    secret_files: dict[str, Secret] = {}
    cwd: str | None = None
    temp: bool = True
    user: str | None = None
    umask: str = "077"
    rlimits: Rlimits | None = None
    max_output: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT)] = 65536
    success_codes: Codes = ()
    retry_codes: Codes | None = None
    fatal_codes: Codes = ()
    heartbeat: Duration | None = None
    grace: Duration = Duration(2.0)

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError('argv is empty; write the program and its arguments, argv = ["convert", "-", "png:-"]')
        if any("\0" in text for text in (*self.argv, *self.env.values(), self.cwd or "")):
            raise ValueError("argv, env and cwd cannot hold a NUL character")
        for name in (*self.env, *self.pass_env, *self.secrets, *self.secret_files):
            if not name or "=" in name or "\0" in name or "/" in name:
                raise ValueError(f"{name!r} cannot name an environment variable")
        if any("\0" in secret.reveal() for secret in self.secrets.values()):
            raise ValueError("a secret of the environment cannot hold a NUL character; put it into secret_files")
        if not self.temp and (self.secret_files or self.cwd == TEMP):
            raise ValueError(f"secret_files and a cwd of {TEMP} need the folder that temp = false leaves out")
        if _UMASK.match(self.umask) is None:
            raise ValueError(f'umask is {self.umask!r}; write octal digits, umask = "077"')
        self._check_codes()
        if self.grace > MAX_GRACE_S:
            raise ValueError(f"grace is at most {MAX_GRACE_S:g} seconds")
        if self.heartbeat is not None and not 0.01 <= self.heartbeat <= 86400:
            raise ValueError("heartbeat lies between 10ms and 1d")

    def _check_codes(self) -> None:
        seen: dict[int, str] = {}
        for name, codes in (
            ("success_codes", self.success_codes),
            ("retry_codes", self.retry_codes or ()),
            ("fatal_codes", self.fatal_codes),
        ):
            for code in codes:
                if seen.setdefault(code, name) != name:
                    raise ValueError(f"the exit code {code} is in {seen[code]} and in {name}; leave it in one of them")

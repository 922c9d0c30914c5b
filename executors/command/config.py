"""The part of a target that says which program to run, and how."""

from __future__ import annotations

import msgspec

from gateway import Duration

MAX_OUTPUT = 16 * 1024 * 1024
MAX_GRACE_S = 60.0


class CommandConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program and its arguments, never a shell line.

    The environment is `PATH`, the dispatcher's variables named in `pass_env`, `env`, and `GATEWAY_JOB_*`; `cwd` is
    the dispatcher's unless given. Of the output `max_output` bytes are kept. An exit code among `fatal_codes` is
    never retried, any other but 0 is. At a timeout the program gets `grace` seconds between SIGTERM and SIGKILL.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    cwd: str | None = None
    max_output: int = 65536
    fatal_codes: tuple[int, ...] = ()
    grace: Duration = Duration(2.0)

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError('argv is empty; write the program and its arguments, argv = ["convert", "-", "png:-"]')
        if any("\0" in text for text in (*self.argv, *self.env.values(), self.cwd or "")):
            raise ValueError("argv, env and cwd cannot hold a NUL character")
        for name in (*self.env, *self.pass_env):
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} cannot name an environment variable")
        if not 1 <= self.max_output <= MAX_OUTPUT:
            raise ValueError(f"max_output lies between 1 and {MAX_OUTPUT} bytes")
        if not all(1 <= code <= 255 for code in self.fatal_codes):
            raise ValueError("fatal_codes lie between 1 and 255")
        if self.grace > MAX_GRACE_S:
            raise ValueError(f"grace is at most {MAX_GRACE_S:g} seconds")

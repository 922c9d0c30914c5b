"""What a command's ending means for its attempt."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from typing import Any

from gateway import Fatal, Result, Retry, processes, results

from .config import CommandConfig

MAX_STDERR = 1024
_MAX_STDOUT = 1024
_HIDDEN = b"***"
_SHORTEST_HIDDEN = 4
_TRANSIENT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EIO, errno.EINTR})
_STEPS = ("exec", "cwd", "user")
"""Where no repeat helps, unless the system was short of something."""


def judge(ending: processes.Ending, config: CommandConfig) -> Result:
    """The result of an exit code that succeeds; raises Fatal or Retry for everything else."""
    report = ending.report
    if "failed" in report:
        raise _not_started(report["failed"], report["errno"], config)
    if not report:
        raise Retry(f"{config.argv[0]!r} was lost: its supervisor was killed", type="launch")
    stderr = _text_tail(_hide(ending.stderr, config), MAX_STDERR)
    stdout = _hide(ending.stdout, config)
    code = report["exit_code"]
    if code != 0 and code not in config.success_codes:
        details: dict[str, Any] = {"exit_code": code, "stderr": stderr}
        if stdout.strip():
            details["stdout"] = _text_tail(stdout, _MAX_STDOUT)
        raise _failed(code, report["signal"], details, config)
    meta: dict[str, Any] = {"exit_code": code, "stderr": stderr}
    if ending.truncated:
        meta["truncated"] = True
    return Result(_value(stdout, truncated=ending.truncated), meta=meta)


def _value(stdout: bytes, *, truncated: bool) -> Any:
    text = stdout.strip()
    if not text:
        return None
    if not truncated:
        with contextlib.suppress(ValueError):
            return results.verbatim(text)
    return stdout.decode(errors="replace")


def _failed(exit_code: int, number: int, details: dict[str, Any], config: CommandConfig) -> Fatal | Retry:
    how = f"exited with code {exit_code}"
    if number:
        details["signal"] = _signal_name(number)
        how = f"was killed by {details['signal']}"
    last_line = details["stderr"].strip().rpartition("\n")[2]
    message = f"{config.argv[0]!r} {how}" + (f": {last_line}" if last_line else "")
    kind = "signal" if number else "exit_code"
    if _is_fatal(exit_code, number, config):
        return Fatal(message, type=kind, details=details)
    return Retry(message, type=kind, details=details)


def _is_fatal(exit_code: int, number: int, config: CommandConfig) -> bool:
    if exit_code in config.fatal_codes:
        return True
    return config.retry_codes is not None and not number and exit_code not in config.retry_codes


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _not_started(step: str, number: int, config: CommandConfig) -> Fatal | Retry:
    where = {"cwd": f" in cwd {config.cwd!r}", "user": f" as user {config.user!r}"}.get(step, "")
    message = f"cannot start {config.argv[0]!r}{where}: {os.strerror(number)}"
    details = {"errno": errno.errorcode.get(number, str(number))}
    if step not in _STEPS or number in _TRANSIENT:
        return Retry(message, type="launch", details=details)
    return Fatal(message, type="launch", details=details)


def _hide(output: bytes, config: CommandConfig) -> bytes:
    """The output without the target's secrets, which must be in no record."""
    for secret in (*config.secrets.values(), *config.secret_files.values()):
        value = secret.reveal().strip().encode()
        if len(value) >= _SHORTEST_HIDDEN:
            output = output.replace(value, _HIDDEN)
    return output


def _text_tail(output: bytes, most: int) -> str:
    """At most so many bytes of text, also where replaced bytes have become longer."""
    return output.decode(errors="replace").encode()[-most:].decode(errors="ignore")

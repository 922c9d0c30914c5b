"""What a command's ending means for its attempt."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from typing import Any

import orjson

from gateway import Fatal, Result, Retry

from .child import Ending
from .config import CommandConfig

MAX_STDERR = 1024
_TRANSIENT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EIO, errno.EINTR})


def judge(ending: Ending, config: CommandConfig) -> Result:
    """The result of exit code 0; raises Fatal or Retry for everything else."""
    report = ending.report
    if "failed" in report:
        raise _not_started(report["failed"], report["errno"], config)
    if not report:
        raise Retry(f"{config.argv[0]!r} was lost: its supervisor was killed", type="launch")
    stderr = _text_tail(ending.stderr)
    if report["exit_code"] != 0:
        raise _failed(report["exit_code"], report["signal"], stderr, config)
    meta: dict[str, Any] = {"exit_code": 0, "stderr": stderr}
    if ending.truncated:
        meta["truncated"] = True
    return Result(_value(ending), meta=meta)


def _value(ending: Ending) -> Any:
    text = ending.stdout.strip()
    if not text:
        return None
    if not ending.truncated:
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    return ending.stdout.decode(errors="replace")


def _failed(exit_code: int, number: int, stderr: str, config: CommandConfig) -> Fatal | Retry:
    details: dict[str, Any] = {"exit_code": exit_code, "stderr": stderr}
    how = f"exited with code {exit_code}"
    if number:
        details["signal"] = _signal_name(number)
        how = f"was killed by {details['signal']}"
    last_line = stderr.strip().rpartition("\n")[2]
    message = f"{config.argv[0]!r} {how}" + (f": {last_line}" if last_line else "")
    kind = "signal" if number else "exit_code"
    if exit_code in config.fatal_codes:
        return Fatal(message, type=kind, details=details)
    return Retry(message, type=kind, details=details)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _not_started(step: str, number: int, config: CommandConfig) -> Fatal | Retry:
    where = f" in cwd {config.cwd!r}" if step == "cwd" else ""
    message = f"cannot start {config.argv[0]!r}{where}: {os.strerror(number)}"
    details = {"errno": errno.errorcode.get(number, str(number))}
    if step not in ("exec", "cwd") or number in _TRANSIENT:
        return Retry(message, type="launch", details=details)
    return Fatal(message, type="launch", details=details)


def _text_tail(stderr: bytes) -> str:
    """At most MAX_STDERR bytes of text, also where replaced bytes have become longer."""
    return stderr.decode(errors="replace").encode()[-MAX_STDERR:].decode(errors="ignore")

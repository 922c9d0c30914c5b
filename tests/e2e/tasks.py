"""A user's own code, copied beside the configuration: each effect is one line, appended whole to `effects`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import Any


def note(*words: object) -> None:
    """One write to a file opened for appending: whole, whoever else writes."""
    descriptor = os.open("effects", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(descriptor)


def work(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """Notes its start, takes as long as it is told, notes its end."""
    name = payload.get("name", context.job.job_id)
    note("start", name, context.number, os.getpid())
    time.sleep(payload.get("s", 0))
    note("end", name, context.number, os.getpid())
    return {"name": name}


def mute(payload: Any) -> None:
    """Leaves its process nothing to write to."""
    sys.stdout.close()
    sys.stderr.close()


async def swallow(payload: Any) -> None:
    """Can be ended by nothing but its process's end."""
    note("swallow", os.getpid())
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


def fail(payload: Any) -> None:
    raise ValueError("broken")


def end_process(payload: Any) -> None:
    """Takes the whole dispatcher with it, as a crash in native code would."""
    note("crash", os.getpid())
    os._exit(1)


def digest(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """What arrived, to be compared byte by byte."""
    note("bytes", context.payload.raw.hex())
    return {"action": payload.get("action")}


def stumble(payload: dict[str, Any], context: Any) -> None:
    """Notes its start, fails as often as it is told, notes its end."""
    note("start", payload["name"], context.number, os.getpid())
    time.sleep(payload["s"])
    if context.number <= payload["fails"]:
        note("fail", payload["name"], context.number, os.getpid())
        raise ValueError("not yet")
    note("end", payload["name"], context.number, os.getpid())

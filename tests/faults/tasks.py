"""The code of the suite's targets, copied beside the configuration: every run is written down as it begins and ends."""

from __future__ import annotations

import itertools
import math
import os
import time
from typing import Any

RUNS = itertools.count(1)


def note(kind: str, context: Any, run: str) -> None:
    """One write to a file opened for appending: whole, whoever else writes."""
    descriptor = os.open("history", os.O_WRONLY | os.O_APPEND)
    try:
        line = f"{time.monotonic_ns()} {kind} {context.job.job_id} {context.number} {run}\n"
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def work(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes as long as it is told, and fails as often; its result says which run it is from."""
    run = f"{os.getpid()}.{next(RUNS)}"
    note("start", context, run)
    time.sleep(payload.get("s", 0))
    if context.number <= payload.get("fail", 0):
        raise ValueError("as it was told")
    note("end", context, run)
    return {"run": run, "tag": payload.get("tag")}


def end_process(payload: Any, context: Any) -> None:
    """Takes the whole dispatcher with it, as a crash in native code would."""
    note("start", context, f"{os.getpid()}.{next(RUNS)}")
    os._exit(1)


def misbehave(payload: dict[str, Any], context: Any) -> Any:
    """What no JSON can say, no result may be, or no machine has room for."""
    if payload["what"] == "memory":
        return len(bytes(8 << 30))
    values: dict[str, Any] = {"nan": math.nan, "set": {1}, "bytes": b"x", "big": 2**64, "surrogate": "\ud800"}
    return values[payload["what"]]

"""What the targets of these tests call, and the stages on which tests hold calls."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from gateway import Attempt, Fatal, Retry


@dataclass(slots=True)
class Stage:
    """Where calls stand until the test lets them go; `log` has a line for each step of each call."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    log: list[str] = field(default_factory=list)
    active: int = 0
    most: int = 0


MIND: ContextVar[str] = ContextVar("MIND", default="nobody")

STAGES: dict[str, Stage] = {}
"""By the name that the payload carries."""


def echo(payload: Any) -> Any:
    return payload


async def hold(payload: dict[str, Any]) -> str:
    """Waits on the stage named in the payload; `label` says who in its log."""
    stage = STAGES[payload["stage"]]
    label = payload.get("label", "")
    stage.active += 1
    stage.most = max(stage.most, stage.active)
    stage.log.append(f"start {label}")
    stage.started.set()
    try:
        await stage.go.wait()
    except asyncio.CancelledError:
        stage.log.append(f"cancelled {label}")
        raise
    finally:
        stage.active -= 1
    stage.log.append(f"end {label}")
    return f"done {label}"


async def swallow(payload: dict[str, Any]) -> None:
    """Waits on the stage as if nothing could end it; `swallows`, if given, is how many cancellations it outlives."""
    stage = STAGES[payload["stage"]]
    stage.started.set()
    while not stage.go.is_set():
        try:
            await stage.go.wait()
        except asyncio.CancelledError:
            stage.log.append("swallowed")
            if stage.log.count("swallowed") > payload.get("swallows", 1000):
                raise
    stage.log.append("went on")


async def mark(payload: dict[str, Any]) -> None:
    """Notes that it ran, and is done."""
    STAGES[payload["stage"]].log.append(payload["label"])


async def mind(payload: dict[str, Any]) -> None:
    """Notes what an earlier job left in the context, and leaves something itself; it may be over some `turns` later."""
    STAGES[payload["stage"]].log.append(f"{payload['label']} after {MIND.get()}")
    MIND.set(payload["label"])
    for _ in range(payload.get("turns", 0)):
        await asyncio.sleep(0)


async def desert(payload: dict[str, Any]) -> None:
    """Asks for its own task's end, and is over before that comes."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def block(payload: dict[str, Any]) -> str:
    """Blocks the whole event loop, which no job should do."""
    log = STAGES[payload["stage"]].log
    log.append("block")
    time.sleep(payload["s"])  # noqa: ASYNC251  that is the point
    log.append("unblock")
    return "blocked"


GO = threading.Event()


def hang(payload: Any) -> None:
    """Hangs in its thread until the test lets all such calls go."""
    GO.wait(120)


def quick(payload: Any) -> Any:
    return payload


def slow(payload: float) -> None:
    """Works so many seconds."""
    time.sleep(payload)


def fail(payload: dict[str, Any]) -> None:
    """Fails for good, or so as to be tried again after a while, as the payload says."""
    match payload["how"]:
        case "fatal":
            raise Fatal("never", type="refused", details={"status": 422})
        case "retry":
            raise Retry("later", after=payload["after"])
        case "timeout":
            raise TimeoutError("a time-out of its own")
    raise ValueError("broken")


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ODD_FAILURES: dict[str, Any] = {
    "unprintable": _Unprintable(),
    "surrogate": ValueError("\ud800"),
    "retry of an exception": Retry(ValueError("wrapped")),  # type: ignore[arg-type]
    "retry of nothing": Retry(None),  # type: ignore[arg-type]
    "odd type": Retry("x", type=7),  # type: ignore[arg-type]
    "surrogate type": Fatal("x", type="\ud800"),
    "details that are no JSON": Fatal("x", details={"at": object()}),
    "details of another kind": Fatal("x", details=[1]),  # type: ignore[arg-type]
    "never": Retry("x", after=float("inf")),
    "not a number": Retry("x", after=float("nan")),
    "too late": Retry("x", after=1e30),
    "negative": Retry("x", after=-5.0),
    "a text": Retry("x", after="soon"),  # type: ignore[arg-type]
}


ENDS: dict[str, BaseException] = {
    "SystemExit": SystemExit(3),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
}


async def end_itself(payload: str) -> None:
    """Raises what ends tasks and processes, or cancels the task that it runs in."""
    if payload == "cancel":
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
    raise ENDS[payload]


def end_in_thread(payload: str) -> None:
    raise ENDS[payload]


def fail_oddly(payload: str) -> None:
    raise ODD_FAILURES[payload]


ODD_RESULTS: dict[str, Any] = {
    "nan": float("nan"),
    "deep nan": {"a": [1, {"b": float("-inf")}]},
    "object": object(),
    "surrogate": "\ud800",
    "set": {1, 2},
    "cycle": [],
}
ODD_RESULTS["cycle"].append(ODD_RESULTS["cycle"])


def result(payload: str) -> Any:
    return ODD_RESULTS[payload]


def power(payload: int) -> int:
    return int(2**payload)


def large(payload: int) -> str:
    return "x" * payload


def leave(payload: Any) -> None:
    """`sys.exit`, which must not end the dispatcher."""
    sys.exit(3)


def deadline(payload: Any, context: Attempt[Any]) -> float:
    return context.remaining_s()


def facts(payload: Any, context: Attempt[Any]) -> dict[str, Any]:
    job = context.job
    return {"number": context.number, "tags": job.tags, "key": job.key, "max": job.max_attempts, "pid": os.getpid()}


async def advance(payload: dict[str, Any], attempt: Attempt[Any]) -> str:
    """Reports how far it is, then waits on the stage; `too_much` reports more than may be."""
    if payload.get("too_much"):
        attempt.progress("x" * 5000)
    attempt.progress({"done": 1, "of": 3})
    attempt.progress({"done": 2, "of": 3})
    stage = STAGES[payload["stage"]]
    stage.started.set()
    await stage.go.wait()
    return "done"


async def call_out(payload: dict[str, Any], context: Any) -> int:
    """Calls a URL by the client that attempts have."""
    response = await context.http.request("GET", payload["url"], timeout_s=5)
    return int(response.status)

"""A process of its own for one function: calls it, an attempt at a time, as the dispatcher says on standard input.

Messages come and go on what were the standard input and output; what the function prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
from collections.abc import MutableMapping
from typing import Any, BinaryIO

import orjson
import structlog

from gateway import AttemptError, Context, Fatal, Payload, Result, processes, results

from .function import Function, find, make_working_directory_importable
from .lifespans import Lifespans
from .messages import Beat, Begin, Call, Failed, Logged, Progress, Raised, Ready, Returned, ToWorker, encode, to_worker


def main() -> None:
    """Runs until standard input ends."""
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    Worker(reading, writing).run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread that the function has started must not keep it


class Worker:
    """Serves one function over two pipes."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading = reading
        self._writing = writing
        structlog.configure(processors=[self._log], cache_logger_on_first_use=False)

    def run(self) -> None:
        begin = self._next()
        if not isinstance(begin, Begin):
            return
        with asyncio.Runner() as runner:
            lifespans = Lifespans()
            try:
                make_working_directory_importable()
                function = find(begin.place)
                runner.run(lifespans.enter([*begin.modules, begin.place.partition(":")[0]]))
            except ValueError as exc:
                self._say(Failed(str(exc)))
                return
            self._say(Ready())
            while isinstance(call := self._next(), Call):
                self._serve(call, begin.place, function, runner, lifespans.state)
            runner.run(lifespans.aclose())

    def _serve(self, call: Call, place: str, function: Function, runner: asyncio.Runner, state: dict[str, Any]) -> None:
        before = _children()
        try:
            text = results.result_of(self._value(call, function, runner, state), place)
        except BaseException as exc:
            self._say(_raised(exc, left=bool(_children() - before)))
        else:
            self._say(Returned(text, left=bool(_children() - before)))

    def _value(self, call: Call, function: Function, runner: asyncio.Runner, state: dict[str, Any]) -> Any:
        payload = _payload(call.payload) if function.read is None else function.read(call.payload)
        arguments = (payload, self._context(call, state)) if function.wants else (payload,)
        value = function.call(*arguments)
        if inspect.isawaitable(value):
            value = runner.run(_finish(value))
        return value.value if isinstance(value, Result) else value

    def _context(self, call: Call, state: dict[str, Any]) -> Context:
        job = call.job
        return Context(
            job,
            Payload(call.payload),
            attempt=call.number,
            deadline=time.monotonic() + call.remaining_s,
            log=structlog.stdlib.get_logger().bind(job_id=job.job_id, target=job.target, attempt=call.number),
            state=state,
            report=lambda value: self._say(Progress(results.encode_progress(value))),
            beat=lambda: self._say(Beat()),
            cancelled=lambda: False,  # it is killed
            http=None,
        )

    def _log(self, _: Any, level: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Ends every log line here, as a message."""
        event = str(entry.pop("event", ""))
        self._say(Logged(level, event, orjson.dumps(dict(entry), default=str, option=_FIELDS).decode()))
        raise structlog.DropEvent

    def _next(self) -> ToWorker | None:
        size = self._reading.read(4)
        data = self._reading.read(int.from_bytes(size, "big")) if len(size) == 4 else b""
        return to_worker(data) if data else None

    def _say(self, message: Any) -> None:
        self._writing.write(processes.frame(encode(message)))
        self._writing.flush()


_LONGEST_S = 1e12
"""More than any job is put off: an integer may be too large for a number of the messages."""

_FIELDS = orjson.OPT_NON_STR_KEYS


async def _finish(value: Any) -> Any:
    return await value


def _payload(raw: bytes) -> Any:
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as exc:
        raise Fatal(f"the payload is not JSON: {exc}", type="payload") from exc


def _raised(exc: BaseException, *, left: bool) -> Raised:
    """What the dispatcher raises in its turn, told as the record would tell it."""
    told = orjson.loads(results.error_of(exc))
    type, message = told.pop("type"), told.pop("message")
    after = getattr(exc, "after", None) if isinstance(exc, AttemptError) else None
    if not isinstance(exc, (Exception, AttemptError)):
        type, message = type.lower(), f"raised {type}({', '.join(map(repr, exc.args))})"
    return Raised(
        "fatal" if isinstance(exc, Fatal) else "retry",
        type,
        message,
        orjson.dumps(told).decode(),
        float(min(after, _LONGEST_S)) if isinstance(after, (int, float)) and after == after and after > 0 else None,
        left,
    )


def _children() -> set[bytes]:
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listing:
            return set(listing.read().split())
    except OSError:
        return set()

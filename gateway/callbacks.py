"""Callbacks: what a client is told when its job ends, made from the callback job that the ending left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from gateway.jobs import Cause, Options, Status
from gateway.timestamps import timestamp


@dataclass(frozen=True, slots=True)
class RenderedCallback:
    """A callback ready to be sent; `body` is the same bytes at every attempt."""

    url: str
    secret: str | None
    body: bytes


def render(job_options: Options, payload: bytes) -> RenderedCallback:
    """The callback that a callback job stands for; `payload` is the finished job's result (JSON, empty if none).

    Result and error are embedded byte for byte. Raises ValueError if the options are not a callback job's.
    """
    cause, parent = job_options.cause, job_options.parent
    if cause is None or parent is None or parent.callback is None:
        raise ValueError("not a callback job: its options have no cause, or their parent no callback")
    body = orjson.dumps(
        {
            "type": f"job.{cause.status}",
            "timestamp": timestamp(cause.at_ms),
            "data": _data(cause, parent.tags, payload),
        }
    )
    return RenderedCallback(parent.callback.url, parent.callback.secret, body)


def _data(cause: Cause, tags: tuple[str, ...], result: bytes) -> dict[str, Any]:
    data: dict[str, Any] = {
        "job_id": cause.job_id,
        "target": cause.target,
        "status": cause.status,
        "attempts": cause.attempts,
    }
    if cause.status == Status.SUCCEEDED:
        if result:
            data["result"] = orjson.Fragment(result)
    elif error := bytes(cause.error):
        data["error"] = orjson.Fragment(error)
    if cause.reason:
        data["reason"] = cause.reason
    if cause.delay_ms is not None:
        data["next_attempt_at"] = timestamp(cause.at_ms + cause.delay_ms)
    data["tags"] = tags
    return data

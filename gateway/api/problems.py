"""Errors as answers: RFC 9457 `application/problem+json`, with every fault in `errors`."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

import orjson

from gateway.api.reply import Reply
from gateway.errors import Fault, GatewayError, RequestError, StoreError, StoreFull, StoreShort, StoreUnavailable

PROBLEM = b"application/problem+json"

_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""RFC 9110's names, which differ from those of older Python versions."""

AWAY = "Redis is away or does not answer"
UNEXPECTED = "this should not have happened; the gateway's log says more"
UNAVAILABLE = (
    f"{AWAY}; what was sent may or may not be queued: send it again, with an idempotency key so that it is queued once"
)

NOT_DELIVERED = (
    f"{AWAY}; the delivery may or may not be queued: send it again, under the id that it has, and it is queued once"
)


class Refused(RequestError):
    """A request that is turned away before it is looked into; `headers` go into the answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        close: bool = False,
    ) -> None:
        super().__init__(detail, status=status)
        self.headers = headers
        self.close = close


def problem(status: int, detail: str, faults: tuple[Fault, ...] = ()) -> dict[str, Any]:
    """The members of a problem; without faults the whole request is the fault."""
    named = faults or (Fault("", detail),)
    return {
        "type": "about:blank",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": [{"pointer": fault.pointer, "detail": fault.detail} for fault in named],
    }


def describe(error: GatewayError, *, unavailable: str = UNAVAILABLE) -> dict[str, Any]:
    """An error that is a client's to know, as a problem; where Redis is, and the mend, stay in the log."""
    if isinstance(error, RequestError):
        return problem(error.status, error.detail, error.faults)
    if isinstance(error, StoreUnavailable) and error.refusal:
        unavailable = unavailable.replace(AWAY, error.refusal, 1)
    return problem(503, str(error) if isinstance(error, (StoreFull, StoreShort)) else unavailable)


def problem_reply(error: GatewayError, *, unavailable: str = UNAVAILABLE) -> Reply:
    """The answer to a RequestError or a StoreError; `unavailable` is what to do where Redis is away."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close = False
    if isinstance(error, Refused):
        headers, close = error.headers, error.close
    elif isinstance(error, StoreError):
        headers = ((b"retry-after", str(math.ceil(error.retry_after_s)).encode()),)
    body = describe(error, unavailable=unavailable)
    return Reply(body["status"], orjson.dumps(body), PROBLEM, headers, close)

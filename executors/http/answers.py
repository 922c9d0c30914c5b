"""What an answer says of its attempt."""

from __future__ import annotations

import contextlib
from typing import Any

from gateway import Deferred, Fatal, HttpResponse, Result, Retry, results

from .config import HttpConfig
from .pauses import asked_pause_s
from .statuses import parse_statuses

GONE = 410
MAX_ERROR_BODY = 1024


def judge(response: HttpResponse, config: HttpConfig, *, now_s: float) -> Result | Deferred:
    """The result of a success, or Deferred where the work goes on elsewhere; raises Retry or Fatal.

    Of the configured sets fatal goes before success, and that before retry; what is in none is fatal.
    """
    status = response.status
    if status not in parse_statuses(config.fatal_statuses) and status in parse_statuses(config.success_statuses):
        if status == 202 and _says_true(response, "gateway-async"):
            return Deferred(float(config.long_work))
        return Result(_value(response), meta={"status": status, "truncated": response.truncated})
    raise _failure(response, config, now_s)


def _failure(response: HttpResponse, config: HttpConfig, now_s: float) -> Retry | Fatal:
    status = response.status
    details: dict[str, Any] = {
        "status": status,
        "body": response.body[:MAX_ERROR_BODY].decode(errors="replace"),
    }
    if response.truncated or len(response.body) > MAX_ERROR_BODY:
        details["truncated"] = True
    if _says_true(response, "gateway-no-retry"):
        return Fatal(f"the target answered {status} and asked for no retry", type="status", details=details)
    listed = status in parse_statuses(config.retry_statuses)
    if status not in parse_statuses(config.fatal_statuses) and listed:
        after = asked_pause_s(response, now_s)
        return Retry(f"the target answered {status}", type="status", after=after, details=details)
    if 300 <= status < 400:
        return Fatal(f"the target answered {status}; redirects are not followed", type="status", details=details)
    if status == GONE:
        return Fatal("the target answered 410: it is gone", type="status", details=details, gone=True)
    return Fatal(f"the target answered {status}", type="status", details=details)


def _says_true(response: HttpResponse, header: str) -> bool:
    return (response.header(header) or "").strip().lower() == "true"


def _value(response: HttpResponse) -> Any:
    if not response.body:
        return None
    if _is_json(response.header("content-type") or ""):
        with contextlib.suppress(ValueError):
            return results.verbatim(response.body)
    return response.body.decode(errors="replace")


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")

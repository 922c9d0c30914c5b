"""The `http` executor: an attempt is one signed request, and the answer's status says how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec
import orjson

from gateway import (
    Attempt,
    EgressDenied,
    Executor,
    Fatal,
    HttpError,
    HttpResponse,
    Result,
    Retry,
    Secret,
    Settings,
    __version__,
    check_headers,
    check_url,
    hookimpl,
    signing,
)

RETRIED = frozenset({408, 425, 429})
MAX_RETRY_AFTER_S = 3600.0
MAX_ERROR_BODY = 1024
SAFE_BRACKETS = 250
"""A text with no more opening brackets than this cannot be nested deeper than orjson writes (254)."""

USER_AGENT = f"event-gateway/{__version__}"


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where and how a target is called.

    With `secret` (`whsec_…`) requests are signed `v1`, and with `previous_secret` too while receivers change over;
    without, `v1a` by the installation's key, if it has one. `GET` sends no body.
    """

    url: str
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"] = "POST"
    headers: dict[str, str] = {}
    secret: Secret | None = None
    previous_secret: Secret | None = None

    def __post_init__(self) -> None:
        check_url(self.url)
        check_headers(self.headers)
        for secret in self.secrets:
            signing.parse_secret(secret)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets to sign with, the present one first."""
        return tuple(secret for secret in (self.secret, self.previous_secret) if secret is not None)


class HttpExecutor(Executor[HttpConfig]):
    """Sends the payload's bytes as `application/json`; `signing_key` signs for targets without a secret."""

    name = "http"
    Config = HttpConfig
    has_flow = True

    def __init__(
        self, signing_key: signing.SigningKey | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._private_key = signing_key.private_key if signing_key else None
        self._clock = clock

    async def execute(self, attempt: Attempt[HttpConfig]) -> Result:
        """Succeeds on 2xx; a JSON answer is the result, else its text, else None."""
        config = attempt.config
        body = b"" if config.method == "GET" else attempt.payload.raw
        try:
            response = await attempt.http.request(
                config.method,
                config.url,
                headers=self._headers(attempt, body),
                body=body,
                timeout_s=attempt.remaining_s(),
            )
        except EgressDenied as exc:
            raise Fatal(str(exc), type="egress_denied") from exc
        except HttpError as exc:
            raise Retry(exc.detail, type=exc.kind) from exc
        if 200 <= response.status < 300:
            return Result(_value(response), meta={"status": response.status, "truncated": response.truncated})
        raise _failure(response, self._clock())

    def _headers(self, attempt: Attempt[HttpConfig], body: bytes) -> list[tuple[str, str]]:
        job, config = attempt.job, attempt.config
        headers = list(config.headers.items())
        configured = {name.lower() for name in config.headers}
        if body and "content-type" not in configured:
            headers.append(("content-type", "application/json"))
        if "user-agent" not in configured:
            headers.append(("user-agent", USER_AGENT))
        if job.traceparent:
            headers.append(("traceparent", job.traceparent))
        headers += (
            ("gateway-job-id", job.job_id),
            ("gateway-attempt", str(attempt.number)),
            ("gateway-max-attempts", str(job.max_attempts)),
            ("idempotency-key", job.job_id),
        )
        return headers + self._signature(job.job_id, body, config.secrets)

    def _signature(self, job_id: str, body: bytes, secrets: tuple[Secret, ...]) -> list[tuple[str, str]]:
        if not secrets and self._private_key is None:
            return []
        timestamp_s = int(self._clock())
        signature = signing.sign(job_id, timestamp_s, body, secrets=secrets, private_key=self._private_key)
        return [
            ("webhook-id", job_id),
            ("webhook-timestamp", str(timestamp_s)),
            ("webhook-signature", signature),
        ]


def _value(response: HttpResponse) -> Any:
    if not response.body:
        return None
    if _is_json(response.header("content-type") or ""):
        try:
            value = orjson.loads(response.body)
            if response.body.count(b"[") + response.body.count(b"{") > SAFE_BRACKETS:
                orjson.dumps(value)
            return value
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            pass
    return response.body.decode(errors="replace")


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _failure(response: HttpResponse, now: float) -> Retry | Fatal:
    status = response.status
    details = {"status": status, "body": response.body[:MAX_ERROR_BODY].decode(errors="replace")}
    if (response.header("gateway-no-retry") or "").strip().lower() == "true":
        return Fatal(f"the target answered {status} and asked for no retry", type="status", details=details)
    if status in RETRIED or status >= 500:
        after = _retry_after_s(response.header("retry-after") or "", now)
        return Retry(f"the target answered {status}", type="status", after=after, details=details)
    if 300 <= status < 400:
        return Fatal(f"the target answered {status}; redirects are not followed", type="status", details=details)
    return Fatal(f"the target answered {status}", type="status", details=details)


def _retry_after_s(value: str, now: float) -> float | None:
    """Seconds from a `Retry-After` in either form (RFC 9110, 10.2.3), at most an hour; None if it says nothing."""
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER_S)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    seconds = (date - datetime.fromtimestamp(now, UTC)).total_seconds()
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)


@hookimpl
def register_executors(settings: Settings) -> Iterable[Executor[Any]]:
    """Offers the `http` executor with the installation's signing key."""
    key = settings.gateway.signing_key
    return [HttpExecutor(signing.SigningKey.parse(key.reveal()) if key else None)]

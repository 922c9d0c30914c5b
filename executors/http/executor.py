"""One attempt: made, signed, sent, judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gateway import (
    Attempt,
    Deferred,
    EgressDenied,
    Executor,
    Fatal,
    FieldFault,
    HttpError,
    HttpResponse,
    JobRequest,
    Result,
    Retry,
    redaction,
    signing,
)

from .answers import judge
from .config import HttpConfig
from .outgoing import Outgoing, check_request, outgoing
from .shown import describe
from .tls import client_context


class HttpExecutor(Executor[HttpConfig]):
    """Sends a job to a URL, signed by the target's secrets, or by the attempt's signing keys where there are none."""

    name = "http"
    Config = HttpConfig
    has_flow = True
    has_breaker = True
    defers = True
    remote = True

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def check(self, config: HttpConfig) -> None:
        """Raises FieldFault if a certificate's file cannot be used here."""
        client_context(config.ca, config.client_cert, config.client_key)

    def describe(self, config: HttpConfig) -> dict[str, Any]:
        """The config without its secrets."""
        return describe(config)

    def check_request(self, config: HttpConfig, request: JobRequest) -> None:
        """Raises FieldFault unless the target's `job_may` allows it."""
        check_request(config, request)

    async def execute(self, attempt: Attempt[HttpConfig]) -> Result | Deferred:
        """Succeeds on 2xx; a JSON answer is the result, else its text, else None."""
        config = attempt.config
        try:
            request = outgoing(attempt)
            tls = client_context(config.ca, config.client_cert, config.client_key)
        except FieldFault as exc:
            raise Fatal(f"{exc.field}: {exc}", type="config") from exc
        try:
            response = await attempt.http.request(
                request.method,
                request.url,
                headers=self._headers(attempt, request),
                body=request.body,
                timeout_s=attempt.remaining_s(),
                connect_timeout_s=float(config.connect_timeout),
                tls=tls,
            )
        except EgressDenied as exc:
            raise Fatal(str(exc), type="egress_denied") from exc
        except HttpError as exc:
            raise Retry(exc.detail, type=exc.kind) from exc
        return judge(_without_secrets(response, attempt, request), config, now_s=self._clock())

    def _headers(self, attempt: Attempt[HttpConfig], request: Outgoing) -> list[tuple[str, str]]:
        job = attempt.job
        headers = list(request.headers)
        if job.traceparent:
            headers.append(("traceparent", job.traceparent))
        if attempt.completion_token:
            headers.append(("gateway-token", attempt.completion_token))
        headers += (
            ("gateway-job-id", job.job_id),
            ("gateway-attempt", str(attempt.number)),
            ("gateway-max-attempts", str(job.max_attempts)),
            ("idempotency-key", job.job_id),
        )
        return headers + self._signature(attempt, request.body)

    def _signature(self, attempt: Attempt[HttpConfig], body: bytes) -> list[tuple[str, str]]:
        now_s, job_id = self._clock(), attempt.job.job_id
        secrets = attempt.config.live_secrets(now_s)
        keys = [] if secrets else [key.private_key for key in attempt.signing_keys]
        if not secrets and not keys:
            return []
        signature = signing.sign(job_id, int(now_s), body, secrets=secrets, private_key=keys)
        return [
            ("webhook-id", job_id),
            ("webhook-timestamp", str(int(now_s))),
            ("webhook-signature", signature),
        ]


def _without_secrets(response: HttpResponse, attempt: Attempt[HttpConfig], request: Outgoing) -> HttpResponse:
    """The answer without what proved who asks: a page that shows requests must not bring it into a record."""
    if not response.body:
        return response
    auth = attempt.config.auth
    secrets: Sequence[bytes] = _secrets_sent(request.headers, request.url, auth.header_name if auth is not None else "")
    if attempt.completion_token:
        secrets = sorted((*secrets, attempt.completion_token.encode()), key=len, reverse=True)
    body = redaction.hide_sent(response.body, secrets, cut=response.truncated)
    return response if body is response.body else replace(response, body=body)


@lru_cache(maxsize=256)
def _secrets_sent(headers: tuple[tuple[str, str], ...], url: str, own: str) -> tuple[bytes, ...]:
    """Those that the requests of a target have in common, and all of a request whose headers are its own."""
    return tuple(redaction.secrets_sent(headers, url, own=(own,) if own else ()))

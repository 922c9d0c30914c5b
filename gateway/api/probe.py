"""`POST /targets/{target}/test`: one signed request to a target, and what came of it, without a job."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from gateway.api.call import Call
from gateway.api.json_bodies import optional_body
from gateway.api.reply import Reply, json_reply
from gateway.errors import AttemptError, Fatal, WrongState
from gateway.executor import Attempt, Deferred, HttpClient, HttpResponse, Job, Payload
from gateway.keys import JobIds
from gateway.redaction import hide_sent, secrets_sent
from gateway.registry.targets import Target
from gateway.signers import signing_keys

MAX_S = 30.0
SHOWN_BODY = 4096
SHOWN_HEADERS = 50
PAYLOAD = msgspec.Raw(b'{"test":true}')
HEADER = ("gateway-test", "true")
_OURS = ("gateway-", "webhook-", "ce-")
_PLAIN = frozenset({"content-type", "user-agent", "idempotency-key", "traceparent"})

log = structlog.get_logger(__name__)


class ProbeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to send: any JSON value."""

    payload: msgspec.Raw = msgspec.field(default_factory=lambda: PAYLOAD)


async def probe(call: Call) -> Reply:
    """200 with the request, the answer and what an attempt would have made of it; WrongState for other executors."""
    target = call.gateway.registry.submittable(call.path_value("target"))
    if not target.executor.remote:
        raise WrongState(f"targets of the executor {target.executor.name} cannot be tested from here: submit a job")
    payload = bytes((await optional_body(call, ProbeBody)).payload)
    client = _Recorder(call.gateway.http)
    attempt = _attempt(target, payload, client, call)
    began_s = asyncio.get_running_loop().time()
    ended: dict[str, Any]
    try:
        async with asyncio.timeout(min(target.timeout_s, MAX_S)):
            result = await target.executor.execute(attempt)
        ended = {"outcome": "parked" if isinstance(result, Deferred) else "succeeded"}
    except AttemptError as exc:
        outcome = "fatal" if isinstance(exc, Fatal) else "retry"
        ended = {"outcome": outcome, "error": {"type": exc.type, "message": exc.message}}
    except TimeoutError:
        ended = {"outcome": "retry", "error": {"type": "timeout", "message": "the target did not answer in time"}}
    ended["duration_ms"] = round((asyncio.get_running_loop().time() - began_s) * 1000)
    return json_reply(ended | client.shown())


def _attempt(target: Target, payload: bytes, client: HttpClient, call: Call) -> Attempt[Any]:
    now_ms = int(call.gateway.clock() * 1000)
    job_id = JobIds().new(now_ms, 0)
    return Attempt(
        job=Job(job_id, target.name, target.lane or "", "", 1, now_ms, (), ""),
        payload=Payload(payload),
        config=target.config,
        number=1,
        token="1:test",  # noqa: S106 (no password)
        deadline=asyncio.get_running_loop().time() + min(target.timeout_s, MAX_S),
        log=log,
        http=client,
        cancelled=asyncio.Event(),
        report=lambda value: None,
        signing_keys=signing_keys(call.gateway.settings.gateway, call.gateway.store),
    )


class _Recorder:
    """The guarded client, which marks each request as a test and remembers the last one and its answer."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._request: dict[str, Any] | None = None
        self._response: dict[str, Any] | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        max_body: int = 65536,
        tls: ssl.SSLContext | None = None,
    ) -> HttpResponse:
        """One request of the client below."""
        headers = [*headers, HEADER]
        shown = [[name, value if _may_show(name) else "…"] for name, value in headers]
        base, mark, _ = url.partition("?")
        self._request = {"method": method, "url": f"{base}?…" if mark else url, "headers": shown, "body": _text(body)}
        response = await self._client.request(
            method,
            url,
            headers=headers,
            body=body,
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            max_body=max_body,
            tls=tls,
        )
        secrets = secrets_sent(headers, url, own=[name.lower() for name, _ in headers if not _may_show(name)])

        def without(text: bytes) -> bytes:
            return hide_sent(text, secrets, cut=response.truncated)

        self._response = {
            "status": response.status,
            "headers": [[name, without(value.encode()).decode()] for name, value in response.headers[:SHOWN_HEADERS]],
            "body": _text(without(response.body)),
            "truncated": response.truncated or len(response.body) > SHOWN_BODY,
        }
        return response

    def shown(self) -> dict[str, Any]:
        """`request` and `response`, as far as there were any."""
        found = {"request": self._request, "response": self._response}
        return {name: value for name, value in found.items() if value is not None}


def _may_show(name: str) -> bool:
    """Headers of ours; those that a target is configured with may be secret."""
    lower = name.lower()
    return lower in _PLAIN or lower.startswith(_OURS)


def _text(body: bytes) -> str:
    return body[:SHOWN_BODY].decode(errors="replace")
